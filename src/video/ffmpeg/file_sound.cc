// The first sound track of a file, decoded from end to end as interleaved floats. Not for changing its rate.
extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>
}

#include <memory>
#include <vector>

#include "video/ffmpeg/av.h"
#include "video/ffmpeg/entries.h"

namespace minicpm::ffmpeg {
namespace {

struct FreeResampler {
  void operator()(SwrContext* p) const { swr_free(&p); }
};

class Sound {
 public:
  Sound(const char* path, const MinicpmMediaSoundSink& sink) : file_(path), sink_(sink) {}

  int32_t Read() {
    stream_ = file_.FirstStream(AVMEDIA_TYPE_AUDIO);
    if (stream_ < 0) return MINICPM_MEDIA_END;
    for (unsigned i = 0; i < file_.format()->nb_streams; ++i) {
      if (static_cast<int>(i) != stream_) file_.format()->streams[i]->discard = AVDISCARD_ALL;
    }
    decoder_ = OpenDecoder(file_.format()->streams[stream_], 1, 1);
    PacketPtr packet(NeedMemory(av_packet_alloc()));
    int e = 0;
    int64_t n_packets = 0;
    while ((e = av_read_frame(file_.format(), packet.get())) >= 0) {
      if (packet->stream_index == stream_) {
        if ((packet->flags & AV_PKT_FLAG_CORRUPT) != 0) Damaged();
        ++n_packets;
        Decode(packet.get());
      }
      av_packet_unref(packet.get());
    }
    if (e != AVERROR_EOF) ThrowAv("the file is damaged", e);
    // Uncompressed samples are listed one by one and read many at a time.
    if (av_get_exact_bits_per_sample(decoder_->codec_id) == 0) file_.CheckComplete(stream_, n_packets);
    Decode(nullptr);
    if (rate_ == 0) Begin(decoder_->sample_rate, decoder_->ch_layout.nb_channels);
    Convert(nullptr);
    return MINICPM_MEDIA_DONE;
  }

 private:
  [[noreturn]] static void Damaged() { Throw(MINICPM_MEDIA_CORRUPT, "the sound track ends early or is damaged"); }

  void Decode(const AVPacket* packet) {
    const int sent = avcodec_send_packet(decoder_.get(), packet);
    // Streams cut out of a longer one may begin with pieces that depend on what is gone.
    if (sent < 0 && sent != AVERROR_EOF && rate_ != 0) Damaged();
    while (true) {
      const int e = avcodec_receive_frame(decoder_.get(), frame_.get());
      if (e == AVERROR(EAGAIN) || e == AVERROR_EOF) return;
      if (e < 0) {
        if (rate_ != 0) Damaged();
        return;
      }
      if (rate_ == 0) Begin(frame_->sample_rate, frame_->ch_layout.nb_channels);
      Convert(frame_.get());
      av_frame_unref(frame_.get());
    }
  }

  void Begin(int rate, int channels) {
    if (rate < 1 || channels < 1) Throw(MINICPM_MEDIA_CORRUPT, "the sound track names no rate or no channels");
    rate_ = rate;
    channels_ = channels;
    if (sink_.begin(sink_.user, rate, channels) != 0) Throw(MINICPM_MEDIA_STOPPED, "stopped");
  }

  // Floats at the rate and number of channels of the first frame, whatever later ones have. null: what is left.
  void Convert(const AVFrame* frame) {
    if (frame != nullptr && (resampler_ == nullptr || frame->sample_rate != from_rate_ ||
                             frame->format != from_format_ || frame->ch_layout.nb_channels != from_channels_)) {
      Drain();
      Prepare(*frame);
    }
    if (frame == nullptr) {
      Drain();
      return;
    }
    const int room = swr_get_out_samples(resampler_.get(), frame->nb_samples);
    if (room < 0) ThrowAv("cannot convert the sound", room);
    Push(const_cast<const uint8_t**>(frame->extended_data), frame->nb_samples, room);
  }

  void Prepare(const AVFrame& frame) {
    AVChannelLayout to;
    av_channel_layout_default(&to, channels_);
    AVChannelLayout from = frame.ch_layout;  // borrowed; older headers want it without const
    SwrContext* made = nullptr;
    int e = swr_alloc_set_opts2(&made, &to, AV_SAMPLE_FMT_FLT, rate_, &from, static_cast<AVSampleFormat>(frame.format),
                                frame.sample_rate, 0, nullptr);
    av_channel_layout_uninit(&to);
    resampler_.reset(made);
    if (e >= 0) e = swr_init(made);
    if (e < 0) ThrowAv("cannot convert the sound", e);
    from_rate_ = frame.sample_rate;
    from_format_ = frame.format;
    from_channels_ = frame.ch_layout.nb_channels;
  }

  void Drain() {
    if (resampler_ == nullptr) return;
    if (const int room = swr_get_out_samples(resampler_.get(), 0); room > 0) Push(nullptr, 0, room);
  }

  void Push(const uint8_t** samples, int n, int room) {
    values_.resize(static_cast<size_t>(room) * static_cast<size_t>(channels_));
    auto* out = reinterpret_cast<uint8_t*>(values_.data());
    const int got = swr_convert(resampler_.get(), &out, room, samples, n);
    if (got < 0) ThrowAv("cannot convert the sound", got);
    for (float& v : values_) {
      if (!(v >= -1e6f && v <= 1e6f)) v = 0;
    }
    const uint64_t n_values = static_cast<uint64_t>(got) * static_cast<uint64_t>(channels_);
    if (n_values > 0 && sink_.push(sink_.user, values_.data(), n_values) != 0) Throw(MINICPM_MEDIA_STOPPED, "stopped");
  }

  LocalFile file_;
  const MinicpmMediaSoundSink& sink_;
  int stream_ = -1;
  CodecPtr decoder_;
  FramePtr frame_{NeedMemory(av_frame_alloc())};
  std::unique_ptr<SwrContext, FreeResampler> resampler_;
  int rate_ = 0;  // 0: nothing decoded yet
  int channels_ = 0;
  int from_rate_ = 0;
  int from_format_ = -1;
  int from_channels_ = 0;
  std::vector<float> values_;
};

}  // namespace

int32_t SoundRead(const char* path, const MinicpmMediaSoundSink* sink, MinicpmMediaError* error) {
  return Guard(error, [&] { return Sound(path, *sink).Read(); });
}

}  // namespace minicpm::ffmpeg
