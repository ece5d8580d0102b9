// What the files of this plugin share: owners of libav objects, errors for the border, opening files safely, decoded
// frames to RGB. Not for the program itself, which never includes libav headers.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "video/media_plugin_abi.h"

namespace minicpm::ffmpeg {

struct Deleter {
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
};
using CodecPtr = std::unique_ptr<AVCodecContext, Deleter>;
using FramePtr = std::unique_ptr<AVFrame, Deleter>;
using PacketPtr = std::unique_ptr<AVPacket, Deleter>;
using ScalerPtr = std::unique_ptr<SwsContext, Deleter>;
using InputPtr = std::unique_ptr<AVFormatContext, Deleter>;

// Thrown inside of the plugin only; Guard turns it into a code and a sentence.
struct Failure {
  int32_t code;
  std::string message;
};

// "<what>: <libav's words for the error>", with the code that fits.
[[noreturn]] void ThrowAv(const std::string& what, int av_error);
[[noreturn]] void Throw(int32_t code, const std::string& message);

void PutMessage(MinicpmMediaError* error, const std::string& message);

// Runs `body`, which returns a code, and lets nothing escape.
template <class Body>
int32_t Guard(MinicpmMediaError* error, Body body) {
  try {
    return body();
  } catch (const Failure& failure) {
    PutMessage(error, failure.message);
    return failure.code;
  } catch (const std::exception&) {
    PutMessage(error, "not enough memory");
    return MINICPM_MEDIA_TOO_LARGE;
  }
}

template <class T>
T* NeedMemory(T* p) {
  if (p == nullptr) Throw(MINICPM_MEDIA_TOO_LARGE, "not enough memory");
  return p;
}

// A local file, and nothing else: no other protocol, no other file, no container that only names other files.
// Streams are known afterwards. Lifetime: the input must go before the file.
class LocalFile {
 public:
  explicit LocalFile(const char* path);
  ~LocalFile();
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  AVFormatContext* format() const { return input_.get(); }
  // The first stream of a kind that is not a cover picture; -1: none.
  int FirstStream(AVMediaType kind) const;
  // After the last packet: containers with a table of all packets (MP4) tell when the file does not hold them; throws.
  void CheckComplete(int stream, int64_t n_packets) const;

 private:
  AVIOContext* io_ = nullptr;
  InputPtr input_;
};

CodecPtr OpenDecoder(const AVStream* stream, uint64_t max_pixels, int threads);

// How a picture is turned and mirrored to be upright.
struct Turn {
  bool transposed = false;  // columns become rows, then:
  bool mirror_x = false;
  bool mirror_y = false;
};
Turn TurnOf(const AVStream* stream);

// Decoded frames -> RGB24 as FFmpeg's own scale filter does it: bicubic, the frame's own matrix and range, BT.601 where
// it names none. That is what decord gives the models' helpers.
class RgbConverter {
 public:
  // rgb: 3 * width * height bytes of the upright picture. A frame of another size is scaled.
  void Convert(const AVFrame& frame, const Turn& turn, int width, int height, uint8_t* rgb);

 private:
  ScalerPtr scaler_;
  std::vector<uint8_t> flat_;
};

}  // namespace minicpm::ffmpeg
