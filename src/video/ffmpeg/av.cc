// Shared parts of the plugin. Not for reading or writing any file from end to end.
#include "video/ffmpeg/av.h"

extern "C" {
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace minicpm::ffmpeg {
namespace {

// Containers that hold their data themselves. Playlists, concatenations, picture sequences, devices and subtitles that
// name files are not among them.
constexpr const char* kFormats =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,wav,w64,aiff,au,caf,flac,mp3,aac,ac3,"
    "eac3,amr,wv,ape,tta,yuv4mpegpipe,mxf,gif,h264,hevc,m4v,mjpeg,ivf,obu,rm,dv,nut,wtv";

int RefuseOpen(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EPERM); }

int32_t CodeOf(int av_error) {
  switch (av_error) {
    case AVERROR(ENOENT):
      return MINICPM_MEDIA_NOT_FOUND;
    case AVERROR(ENOMEM):
      return MINICPM_MEDIA_TOO_LARGE;
    case AVERROR(EIO):
    case AVERROR(EACCES):
    case AVERROR(EPERM):
    case AVERROR(ENOSPC):
    case AVERROR(ETIMEDOUT):
    case AVERROR(ECONNREFUSED):
    case AVERROR_EXIT:
      return MINICPM_MEDIA_IO;
    case AVERROR_DECODER_NOT_FOUND:
    case AVERROR_DEMUXER_NOT_FOUND:
    case AVERROR_PATCHWELCOME:
    case AVERROR(EINVAL):
    case AVERROR(ENOSYS):
      return MINICPM_MEDIA_UNSUPPORTED;
    default:
      return MINICPM_MEDIA_CORRUPT;
  }
}

struct DictionaryGuard {
  AVDictionary* options = nullptr;
  ~DictionaryGuard() { av_dict_free(&options); }
};

}  // namespace

void Throw(int32_t code, const std::string& message) { throw Failure{code, message}; }

void ThrowAv(const std::string& what, int av_error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(av_error, text, sizeof text);
  Throw(CodeOf(av_error), what + ": " + text);
}

void PutMessage(MinicpmMediaError* error, const std::string& message) {
  const size_t n = std::min(message.size(), sizeof error->message - 1);
  std::memcpy(error->message, message.data(), n);
  error->message[n] = '\0';
}

LocalFile::LocalFile(const char* path) {
  DictionaryGuard guard;
  av_dict_set(&guard.options, "protocol_whitelist", "file", 0);
  const std::string address = std::string("file:") + path;
  if (const int e = avio_open2(&io_, address.c_str(), AVIO_FLAG_READ, nullptr, &guard.options); e < 0) {
    ThrowAv("cannot open the file", e);
  }
  AVFormatContext* format = avformat_alloc_context();
  if (format == nullptr) {
    avio_closep(&io_);
    NeedMemory(format);
  }
  format->pb = io_;
  format->flags |= AVFMT_FLAG_CUSTOM_IO;
  format->io_open = RefuseOpen;
  av_dict_set(&guard.options, "protocol_whitelist", "file", 0);
  av_dict_set(&guard.options, "format_whitelist", kFormats, 0);
  // The name helps to guess a raw stream's format; the address is never opened again.
  const int e = avformat_open_input(&format, path, nullptr, &guard.options);
  if (e < 0) {  // has freed `format`
    avio_closep(&io_);
    if (e == AVERROR(EINVAL)) Throw(MINICPM_MEDIA_UNSUPPORTED, "not a kind of media file that is read here");
    ThrowAv("a broken, incomplete or unknown media file", e);
  }
  input_.reset(format);
  if (const int found = avformat_find_stream_info(format, nullptr); found < 0) {
    input_.reset();
    avio_closep(&io_);
    ThrowAv("a broken or incomplete media file", found);
  }
}

LocalFile::~LocalFile() {
  input_.reset();
  avio_closep(&io_);
}

int LocalFile::FirstStream(AVMediaType kind) const {
  for (unsigned i = 0; i < input_->nb_streams; ++i) {
    const AVStream* stream = input_->streams[i];
    if (stream->codecpar->codec_type != kind) continue;
    if ((stream->disposition & (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS)) == 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void LocalFile::CheckComplete(int stream, int64_t n_packets) const {
  const int promised = avformat_index_get_entries_count(input_->streams[stream]);
  const std::string_view name = input_->iformat->name;
  if (name.starts_with("mov,") && promised > n_packets + 1 && input_->pb->eof_reached != 0) {
    Throw(MINICPM_MEDIA_CORRUPT, "the file is cut off: it lists " + std::to_string(promised) + " packets and holds " +
                                     std::to_string(n_packets));
  }
  if (input_->pb->error < 0) ThrowAv("cannot read the file", input_->pb->error);
}

CodecPtr OpenDecoder(const AVStream* stream, uint64_t max_pixels, int threads) {
  const AVCodec* codec = avcodec_find_decoder(stream->codecpar->codec_id);
  if (codec == nullptr) {
    Throw(MINICPM_MEDIA_UNSUPPORTED,
          std::string("FFmpeg has no decoder for ") + avcodec_get_name(stream->codecpar->codec_id));
  }
  CodecPtr context(NeedMemory(avcodec_alloc_context3(codec)));
  if (const int e = avcodec_parameters_to_context(context.get(), stream->codecpar); e < 0) {
    ThrowAv("the stream's parameters", e);
  }
  context->pkt_timebase = stream->time_base;
  context->max_pixels = static_cast<int64_t>(std::min<uint64_t>(max_pixels, INT64_MAX));
  context->thread_count = threads;
  if (const int e = avcodec_open2(context.get(), codec, nullptr); e < 0) {
    ThrowAv(std::string("cannot start the decoder of ") + codec->name, e);
  }
  return context;
}

Turn TurnOf(const AVStream* stream) {
  size_t bytes = 0;
  const uint8_t* data = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &bytes);
  if (data == nullptr || bytes < 9 * sizeof(int32_t)) return {};
  int32_t m[9];
  std::memcpy(m, data, sizeof m);
  const auto size = [](int32_t v) { return std::abs(static_cast<int64_t>(v)); };
  // x' = m0 x + m3 y, y' = m1 x + m4 y; only quarter turns can be shown, the nearest is taken.
  if (size(m[0]) + size(m[4]) >= size(m[1]) + size(m[3])) return {false, m[0] < 0, m[4] < 0};
  return {true, m[3] < 0, m[1] < 0};
}

void RgbConverter::Convert(const AVFrame& frame, const Turn& turn, int width, int height, uint8_t* rgb) {
  const int flat_width = turn.transposed ? height : width;
  const int flat_height = turn.transposed ? width : height;
  if (frame.width < 1 || frame.height < 1 || frame.format < 0) Throw(MINICPM_MEDIA_CORRUPT, "a frame without a size");
  const auto format = static_cast<AVPixelFormat>(frame.format);
  scaler_.reset(sws_getCachedContext(scaler_.release(), frame.width, frame.height, format, flat_width, flat_height,
                                     AV_PIX_FMT_RGB24, SWS_BICUBIC, nullptr, nullptr, nullptr));
  if (scaler_ == nullptr) {
    const char* name = av_get_pix_fmt_name(format);
    Throw(MINICPM_MEDIA_UNSUPPORTED,
          std::string("pixels of the kind ") + (name == nullptr ? "?" : name) + " cannot be converted");
  }
  int* from = nullptr;
  int* to = nullptr;
  int from_full = 0, to_full = 0, brightness = 0, contrast = 0, saturation = 0;
  if (sws_getColorspaceDetails(scaler_.get(), &from, &from_full, &to, &to_full, &brightness, &contrast, &saturation) >=
      0) {
    if (frame.color_range != AVCOL_RANGE_UNSPECIFIED) from_full = frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0;
    sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(frame.colorspace), from_full, to, to_full, brightness,
                             contrast, saturation);
  }
  const bool upright = !turn.transposed && !turn.mirror_x && !turn.mirror_y;
  // swscale writes rows in whole vectors: a last row of odd length needs room behind it.
  const int stride = (3 * flat_width + 63) / 64 * 64;
  flat_.resize(static_cast<size_t>(stride) * flat_height + 64);
  uint8_t* planes[4] = {flat_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {stride, 0, 0, 0};
  if (const int e = sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, planes, strides); e < 0) {
    ThrowAv("cannot convert a frame", e);
  }
  for (int y = 0; y < height; ++y) {
    uint8_t* out = rgb + static_cast<size_t>(3) * width * y;
    if (upright) {
      std::memcpy(out, flat_.data() + static_cast<size_t>(stride) * y, static_cast<size_t>(3) * width);
      continue;
    }
    const int v = turn.mirror_y ? height - 1 - y : y;
    for (int x = 0; x < width; ++x, out += 3) {
      const int u = turn.mirror_x ? width - 1 - x : x;
      const uint8_t* in =
          flat_.data() + (turn.transposed ? static_cast<size_t>(stride) * u + 3 * static_cast<size_t>(v)
                                          : static_cast<size_t>(stride) * v + 3 * static_cast<size_t>(u));
      std::memcpy(out, in, 3);
    }
  }
}

}  // namespace minicpm::ffmpeg
