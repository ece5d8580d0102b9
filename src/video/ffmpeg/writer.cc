// RGB frames -> H.264 (or MPEG-4 where there is no encoder of it) in MP4, Matroska or QuickTime. Not for sound.
extern "C" {
#include <libavutil/opt.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "video/ffmpeg/av.h"
#include "video/ffmpeg/entries.h"

namespace minicpm::ffmpeg {
namespace {

constexpr int kTicks = 60000;  // a second; MPEG-4 allows no more than 65535

struct FreeOutput {
  void operator()(AVFormatContext* p) const {
    avio_closep(&p->pb);
    avformat_free_context(p);
  }
};

class Writer {
 public:
  Writer(const char* path, const std::string& ending, const MinicpmMediaWriterOptions& options) : options_(options) {
    const std::string address = std::string("file:") + path;
    const char* kind = ending == "mkv" ? "matroska" : ending.c_str();
    AVFormatContext* format = nullptr;
    if (const int e = avformat_alloc_output_context2(&format, nullptr, kind, address.c_str()); e < 0) {
      ThrowAv("cannot write this kind of file", e);
    }
    format_.reset(format);
    OpenEncoder();
    stream_ = NeedMemory(avformat_new_stream(format, nullptr));
    stream_->time_base = encoder_->time_base;
    stream_->avg_frame_rate = encoder_->framerate;
    if (const int e = avcodec_parameters_from_context(stream_->codecpar, encoder_.get()); e < 0) {
      ThrowAv("the encoder's parameters", e);
    }
    if (const int e = avio_open(&format_->pb, address.c_str(), AVIO_FLAG_WRITE); e < 0) {
      ThrowAv("cannot open the file for writing", e);
    }
    if (const int e = avformat_write_header(format, nullptr); e < 0) ThrowAv("cannot write the header", e);
  }

  void Write(const uint8_t* rgb, double time_s) {
    FramePtr frame(NeedMemory(av_frame_alloc()));
    frame->format = encoder_->pix_fmt;
    frame->width = encoder_->width;
    frame->height = encoder_->height;
    frame->color_range = encoder_->color_range;
    frame->colorspace = encoder_->colorspace;
    if (const int e = av_frame_get_buffer(frame.get(), 0); e < 0) ThrowAv("a frame's memory", e);
    Convert(rgb, *frame);
    // Two frames at one time: the later one is shown right after.
    last_ = std::max(last_ + 1, static_cast<int64_t>(std::llround(time_s * kTicks)));
    frame->pts = last_;
    Encode(frame.get());
  }

  void Finish() {
    Encode(nullptr);
    if (const int e = av_write_trailer(format_.get()); e < 0) ThrowAv("cannot finish the file", e);
    if (const int e = avio_closep(&format_->pb); e < 0) ThrowAv("cannot close the file", e);
  }

 private:
  void OpenEncoder() {
    const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
    if (codec == nullptr) codec = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
    if (codec == nullptr) Throw(MINICPM_MEDIA_UNSUPPORTED, "this FFmpeg has no encoder for H.264 or MPEG-4");
    encoder_.reset(NeedMemory(avcodec_alloc_context3(codec)));
    encoder_->width = options_.width + options_.width % 2;
    encoder_->height = options_.height + options_.height % 2;
    encoder_->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder_->time_base = {1, kTicks};
    encoder_->framerate = av_d2q(options_.fps, 100000);
    encoder_->gop_size = std::max(1, static_cast<int>(std::lround(2 * options_.fps)));
    encoder_->colorspace = AVCOL_SPC_SMPTE170M;
    encoder_->color_range = AVCOL_RANGE_MPEG;
    encoder_->thread_count = 2;
    if (codec->id == AV_CODEC_ID_H264) {
      av_opt_set(encoder_->priv_data, "preset", "veryfast", 0);
      av_opt_set(encoder_->priv_data, "crf", "20", 0);
    } else {
      encoder_->flags |= AV_CODEC_FLAG_QSCALE;
      encoder_->global_quality = 3 * FF_QP2LAMBDA;
    }
    if ((format_->oformat->flags & AVFMT_GLOBALHEADER) != 0) encoder_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (const int e = avcodec_open2(encoder_.get(), codec, nullptr); e < 0) ThrowAv("cannot start the encoder", e);
  }

  // Odd sizes: the last column and row once more.
  void Convert(const uint8_t* rgb, AVFrame& frame) {
    const int width = encoder_->width;
    const int height = encoder_->height;
    padded_.resize(static_cast<size_t>(3) * width * height);
    const size_t row = static_cast<size_t>(3) * options_.width;
    for (int y = 0; y < height; ++y) {
      uint8_t* out = padded_.data() + static_cast<size_t>(3) * width * y;
      std::memcpy(out, rgb + row * std::min(y, options_.height - 1), row);
      if (width > options_.width) std::memcpy(out + row, out + row - 3, 3);
    }
    scaler_.reset(sws_getCachedContext(scaler_.release(), width, height, AV_PIX_FMT_RGB24, width, height,
                                       encoder_->pix_fmt, SWS_BICUBIC, nullptr, nullptr, nullptr));
    NeedMemory(scaler_.get());
    const uint8_t* planes[4] = {padded_.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {3 * width, 0, 0, 0};
    if (const int e = sws_scale(scaler_.get(), planes, strides, 0, height, frame.data, frame.linesize); e < 0) {
      ThrowAv("cannot convert a frame", e);
    }
  }

  void Encode(const AVFrame* frame) {
    if (const int e = avcodec_send_frame(encoder_.get(), frame); e < 0) ThrowAv("cannot encode a frame", e);
    while (true) {
      const int e = avcodec_receive_packet(encoder_.get(), packet_.get());
      if (e == AVERROR(EAGAIN) || e == AVERROR_EOF) return;
      if (e < 0) ThrowAv("cannot encode a frame", e);
      if (packet_->duration == 0) packet_->duration = std::max<int64_t>(1, std::llround(kTicks / options_.fps));
      packet_->stream_index = stream_->index;
      av_packet_rescale_ts(packet_.get(), encoder_->time_base, stream_->time_base);
      if (const int w = av_interleaved_write_frame(format_.get(), packet_.get()); w < 0)
        ThrowAv("cannot write a frame", w);
    }
  }

  MinicpmMediaWriterOptions options_;
  std::unique_ptr<AVFormatContext, FreeOutput> format_;
  CodecPtr encoder_;
  AVStream* stream_ = nullptr;
  ScalerPtr scaler_;
  PacketPtr packet_{NeedMemory(av_packet_alloc())};
  std::vector<uint8_t> padded_;
  int64_t last_ = -1;
};

Writer* Of(MinicpmMediaWriter* writer) { return reinterpret_cast<Writer*>(writer); }

}  // namespace

int32_t WriterOpen(const char* path, const char* ending, const MinicpmMediaWriterOptions* options,
                   MinicpmMediaWriter** writer, MinicpmMediaError* error) {
  return Guard(error, [&] {
    *writer = reinterpret_cast<MinicpmMediaWriter*>(new Writer(path, ending, *options));
    return MINICPM_MEDIA_DONE;
  });
}

int32_t WriterWrite(MinicpmMediaWriter* writer, const uint8_t* rgb, double time_s, MinicpmMediaError* error) {
  return Guard(error, [&] {
    Of(writer)->Write(rgb, time_s);
    return MINICPM_MEDIA_DONE;
  });
}

int32_t WriterFinish(MinicpmMediaWriter* writer, MinicpmMediaError* error) {
  return Guard(error, [&] {
    Of(writer)->Finish();
    return MINICPM_MEDIA_DONE;
  });
}

void WriterClose(MinicpmMediaWriter* writer) { delete Of(writer); }

}  // namespace minicpm::ffmpeg
