// Cameras (video4linux2) and RTSP streams, with time limits on everything that waits. Not for files.
extern "C" {
#include <libavutil/time.h>
}

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "video/ffmpeg/av.h"
#include "video/ffmpeg/entries.h"

namespace minicpm::ffmpeg {
namespace {

constexpr unsigned kPollUs = 4000;

class Live {
 public:
  Live(const char* address, const MinicpmMediaLiveOptions& options) : options_(options) {
    const std::string_view name(address);
    const bool camera = name.starts_with("/dev/");
    Deadline(options_.open_timeout_s);
    AVDictionary* dictionary = nullptr;
    const AVInputFormat* kind = av_find_input_format(camera ? "video4linux2" : "rtsp");
    if (kind == nullptr) Throw(MINICPM_MEDIA_UNSUPPORTED, "this FFmpeg was built without cameras or without RTSP");
    AVFormatContext* format = NeedMemory(avformat_alloc_context());
    format->interrupt_callback = {.callback = Interrupt, .opaque = this};
    if (camera) {
      format->flags |= AVFMT_FLAG_NONBLOCK;
      av_dict_set(&dictionary, "protocol_whitelist", "file", 0);
    } else {
      format->flags |= AVFMT_FLAG_NOBUFFER;
      av_dict_set(&dictionary, "rtsp_flags", "prefer_tcp", 0);
      av_dict_set(&dictionary, "protocol_whitelist", "rtsp,rtsps,rtp,srtp,tcp,tls,udp,crypto", 0);
    }
    const int e = avformat_open_input(&format, address, kind, &dictionary);
    av_dict_free(&dictionary);
    if (e < 0) Failed(camera ? "cannot open the camera" : "cannot open the stream", e);
    input_.reset(format);
    if (!camera) {
      format->max_analyze_duration = 2 * AV_TIME_BASE;
      if (const int found = avformat_find_stream_info(format, nullptr); found < 0)
        Failed("cannot read the stream", found);
    }
    stream_ = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (stream_ < 0) Throw(MINICPM_MEDIA_UNSUPPORTED, "the source sends no video");
    for (unsigned i = 0; i < format->nb_streams; ++i) {
      if (static_cast<int>(i) != stream_) format->streams[i]->discard = AVDISCARD_ALL;
    }
    // One thread: more would hold frames back.
    decoder_ = OpenDecoder(format->streams[stream_], options_.max_pixels, 1);
    turn_ = TurnOf(format->streams[stream_]);
    Decode();  // the first frame belongs to opening
    has_first_ = true;
  }

  double Fps() const {
    const AVRational rate = input_->streams[stream_]->avg_frame_rate;
    return rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
  }

  bool Next(MinicpmMediaFrame* out) {
    if (!has_first_) {
      Deadline(options_.read_timeout_s);
      if (!Decode()) return false;
    }
    has_first_ = false;
    if (frame_->width < 1 || frame_->height < 1) return false;
    out->width = turn_.transposed ? frame_->height : frame_->width;
    out->height = turn_.transposed ? frame_->width : frame_->height;
    rgb_.resize(static_cast<size_t>(3) * out->width * out->height);
    converter_.Convert(*frame_, turn_, out->width, out->height, rgb_.data());
    out->rgb = rgb_.data();
    const int64_t time = frame_->best_effort_timestamp;
    out->time_s = time == AV_NOPTS_VALUE ? -1 : static_cast<double>(time) * av_q2d(input_->streams[stream_]->time_base);
    return true;
  }

 private:
  void Deadline(double seconds) {
    limit_s_ = seconds;
    deadline_us_ = av_gettime_relative() + static_cast<int64_t>(seconds * 1e6);
  }
  bool Late() const { return av_gettime_relative() > deadline_us_; }
  static int Interrupt(void* self) {
    auto* live = static_cast<Live*>(self);
    return live->Late() || live->options_.stop(live->options_.user) != 0 ? 1 : 0;
  }

  [[noreturn]] void Failed(const std::string& what, int e) const {
    if (options_.stop(options_.user) != 0) Throw(MINICPM_MEDIA_STOPPED, "stopped");
    if (e == AVERROR_EXIT || e == AVERROR(ETIMEDOUT) || Late()) {
      Throw(MINICPM_MEDIA_IO, what + ": nothing came within " + std::to_string(static_cast<int>(limit_s_)) + " s");
    }
    ThrowAv(what, e);
  }

  // The next whole frame, into frame_. Damaged ones are passed over: packets get lost on the way. False: the end.
  bool Decode() {
    while (true) {
      const int e = avcodec_receive_frame(decoder_.get(), frame_.get());
      if (e >= 0) {
        if ((frame_->flags & AV_FRAME_FLAG_CORRUPT) == 0 && frame_->decode_error_flags == 0) return true;
        continue;
      }
      if (e == AVERROR_EOF) return false;
      Feed();
    }
  }

  void Feed() {
    while (true) {
      if (Interrupt(this) != 0) Failed("waiting for a frame", AVERROR_EXIT);
      const int e = av_read_frame(input_.get(), packet_.get());
      if (e == AVERROR(EAGAIN)) {
        av_usleep(kPollUs);
        continue;
      }
      if (e == AVERROR_EOF) {
        avcodec_send_packet(decoder_.get(), nullptr);
        return;
      }
      if (e < 0) Failed("waiting for a frame", e);
      const bool mine = packet_->stream_index == stream_;
      if (mine) avcodec_send_packet(decoder_.get(), packet_.get());
      av_packet_unref(packet_.get());
      if (mine) return;
    }
  }

  MinicpmMediaLiveOptions options_;
  int64_t deadline_us_ = 0;
  double limit_s_ = 0;
  InputPtr input_;
  int stream_ = -1;
  CodecPtr decoder_;
  Turn turn_;
  FramePtr frame_{NeedMemory(av_frame_alloc())};
  PacketPtr packet_{NeedMemory(av_packet_alloc())};
  RgbConverter converter_;
  std::vector<uint8_t> rgb_;
  bool has_first_ = false;
};

Live* Of(MinicpmMediaLive* live) { return reinterpret_cast<Live*>(live); }

}  // namespace

int32_t LiveOpen(const char* address, const MinicpmMediaLiveOptions* options, MinicpmMediaLive** live, double* fps,
                 MinicpmMediaError* error) {
  return Guard(error, [&] {
    auto opened = std::make_unique<Live>(address, *options);
    *fps = opened->Fps();
    *live = reinterpret_cast<MinicpmMediaLive*>(opened.release());
    return MINICPM_MEDIA_DONE;
  });
}

int32_t LiveNext(MinicpmMediaLive* live, MinicpmMediaFrame* frame, MinicpmMediaError* error) {
  return Guard(error, [&] { return Of(live)->Next(frame) ? MINICPM_MEDIA_DONE : MINICPM_MEDIA_END; });
}

void LiveClose(MinicpmMediaLive* live) { delete Of(live); }

}  // namespace minicpm::ffmpeg
