// Frames through the picture room's JPEG decoder, sound as PCM. Not for the container's structure (avi_chunks.h).
#include "video/avi.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "video/avi_chunks.h"
#include "video/little_endian.h"

namespace minicpm {
namespace {

constexpr uint32_t kMaxFrameBytes = 64u << 20;

std::optional<size_t> FirstOf(const AviFile& file, std::string_view kind) {
  for (size_t i = 0; i < file.streams.size(); ++i) {
    if (file.streams[i].kind == kind) return i;
  }
  return std::nullopt;
}

// Is this still the chunk that was found at opening? Lengths come from an index that may lie.
Status CheckChunk(ByteSource& source, const AviChunk& chunk, const std::string& what) {
  std::array<std::byte, 8> head;
  MINICPM_TRY(source.ReadAt(chunk.offset - 8, head));
  if (Le32(head, 4) != chunk.bytes) return BrokenAvi(source, "its index leads to no chunk for " + what);
  return {};
}

class AviReader : public VideoReader {
 public:
  AviReader(std::unique_ptr<ByteSource> source, const VideoLimits& limits)
      : source_(std::move(source)), limits_({.max_bytes = kMaxFrameBytes, .max_pixels = limits.max_pixels}) {}

  Status Open(const VideoLimits& limits) {
    MINICPM_ASSIGN(const AviFile file, ReadAviHeaders(*source_));
    const auto stream = FirstOf(file, "vids");
    if (!stream.has_value()) return BrokenAvi(*source_, "it has no stream of pictures");
    MINICPM_TRY(CheckCodec(file.streams[*stream].format));
    MINICPM_ASSIGN(frames_, FindAviChunks(*source_, file, *stream, limits.max_frames));
    DropEmptyFrames();
    if (frames_.empty()) return BrokenAvi(*source_, "it has no frames");
    const double rate = file.streams[*stream].rate;
    info_.fps = rate > 0 ? rate : file.header_fps;
    if (!(info_.fps > 0) || !(info_.fps <= 1e6)) return BrokenAvi(*source_, "it does not say its frame rate");
    info_.n_frames = static_cast<int64_t>(frames_.size());
    info_.duration_s = static_cast<double>(info_.n_frames) / info_.fps;
    info_.has_sound = FirstOf(file, "auds").has_value();
    info_.format = "avi/mjpeg";
    // The size that counts is the one in the pictures.
    MINICPM_ASSIGN(const Image first, Decode(0));
    info_.width = first.width;
    info_.height = first.height;
    return {};
  }

  const VideoInfo& info() const override { return info_; }

  Result<Image> Frame(int64_t index) override {
    MINICPM_CHECK(index >= 0 && index < info_.n_frames);
    MINICPM_ASSIGN(Image image, Decode(index));
    if (image.width != info_.width || image.height != info_.height) {
      return BrokenAvi(*source_, "frame " + std::to_string(index) + " has " + std::to_string(image.width) + " x " +
                                     std::to_string(image.height) + " pixels, the first " +
                                     std::to_string(info_.width) + " x " + std::to_string(info_.height));
    }
    return image;
  }

 private:
  Status CheckCodec(std::span<const std::byte> format) const {
    if (format.size() < 20) return BrokenAvi(*source_, "its stream of pictures has no format");
    const std::string_view codec = FourLetters(format, 16);
    for (const std::string_view known : {"MJPG", "mjpg", "JPEG", "jpeg", "dmb1"}) {
      if (codec == known) return {};
    }
    return Fail(ErrorCode::kUnsupported, source_->name() + ": AVI files with \"" + Printable(codec, 8) +
                                             "\" pictures need the FFmpeg plugin, without it MJPG is read");
  }

  // An empty chunk repeats the frame before it; before the first frame there is nothing to repeat.
  void DropEmptyFrames() {
    const auto first = std::find_if(frames_.begin(), frames_.end(), [](const AviChunk& c) { return c.bytes > 0; });
    frames_.erase(frames_.begin(), first);
    for (size_t i = 1; i < frames_.size(); ++i) {
      if (frames_[i].bytes == 0) frames_[i] = frames_[i - 1];
    }
    frames_.shrink_to_fit();
  }

  Result<Image> Decode(int64_t index) {
    const AviChunk& chunk = frames_[static_cast<size_t>(index)];
    const std::string what = "frame " + std::to_string(index);
    if (chunk.bytes > kMaxFrameBytes) {
      return Fail(ErrorCode::kResourceExhausted, source_->name() + ": " + what + " has " + std::to_string(chunk.bytes) +
                                                     " bytes, the limit is " + std::to_string(kMaxFrameBytes));
    }
    MINICPM_TRY(CheckChunk(*source_, chunk, what));
    data_.resize(chunk.bytes);
    MINICPM_TRY(source_->ReadAt(chunk.offset, data_));
    constexpr std::array<std::byte, 2> kStart = {std::byte{0xff}, std::byte{0xd8}};
    if (data_.size() < 4 || !std::equal(kStart.begin(), kStart.end(), data_.begin())) {
      return BrokenAvi(*source_, what + " is no JPEG picture");
    }
    auto image = DecodeImage(data_, what, limits_);
    if (!image.has_value()) return Annotate(source_->name(), std::move(image).error());
    return image;
  }

  std::unique_ptr<ByteSource> source_;
  ImageLimits limits_;
  VideoInfo info_;
  std::vector<AviChunk> frames_;
  std::vector<std::byte> data_;
};

// WAVEFORMATEX.
struct PcmFormat {
  bool is_float = false;
  int channels = 0;
  int rate = 0;
  int bytes = 0;  // of one sample
};

Result<PcmFormat> ReadFormat(const ByteSource& source, std::span<const std::byte> format) {
  if (format.size() < 16) return BrokenAvi(source, "its sound track has no format");
  uint32_t tag = Le16(format, 0);
  if (tag == 0xfffe && format.size() >= 26) tag = Le16(format, 24);  // the format's own field for newer tags
  const uint32_t bits = Le16(format, 14);
  PcmFormat pcm{.is_float = tag == 3,
                .channels = static_cast<int>(Le16(format, 2)),
                .rate = static_cast<int>(std::min(Le32(format, 4), 0x7fffffffu)),
                .bytes = static_cast<int>(bits / 8)};
  const bool known =
      (tag == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32)) || (tag == 3 && (bits == 32 || bits == 64));
  if (!known) {
    return Fail(ErrorCode::kUnsupported, source.name() + ": the sound of this AVI file (format " + std::to_string(tag) +
                                             ", " + std::to_string(bits) + " bits) needs the FFmpeg plugin, without " +
                                             "it PCM is read");
  }
  return pcm;
}

float SampleAt(const PcmFormat& pcm, std::span<const std::byte> bytes) {
  switch (pcm.bytes) {
    case 1:
      return (static_cast<float>(static_cast<uint8_t>(bytes[0])) - 128.0f) / 128.0f;
    case 2:
      return static_cast<float>(static_cast<int16_t>(Le16(bytes, 0))) / 32768.0f;
    case 3: {
      const uint32_t value = Le16(bytes, 0) << 8 | static_cast<uint32_t>(bytes[2]) << 24;
      return static_cast<float>(static_cast<int32_t>(value)) / 2147483648.0f;
    }
    case 4: {
      const uint32_t value = Le32(bytes, 0);
      float real;
      std::memcpy(&real, &value, sizeof real);
      return pcm.is_float ? real : static_cast<float>(static_cast<int32_t>(value)) / 2147483648.0f;
    }
    default: {
      const uint64_t value = Le64(bytes, 0);
      double real;
      std::memcpy(&real, &value, sizeof real);
      return static_cast<float>(real);
    }
  }
}

// Bytes of one chunk after the other -> samples; a frame of samples may be cut by the end of a chunk.
Status PushChunk(ByteSource& source, const PcmFormat& pcm, const AviChunk& chunk, std::vector<std::byte>& left,
                 SoundConverter& converter) {
  constexpr uint64_t kPiece = 1 << 18;
  const size_t sample_bytes = static_cast<size_t>(pcm.bytes);
  const size_t frame_bytes = sample_bytes * static_cast<size_t>(pcm.channels);
  std::vector<float> values;
  for (uint64_t done = 0; done < chunk.bytes;) {
    const size_t had = left.size();
    const uint64_t n = std::min<uint64_t>(kPiece, chunk.bytes - done);
    left.resize(had + n);
    MINICPM_TRY(source.ReadAt(chunk.offset + done, std::span(left).subspan(had)));
    done += n;
    const size_t whole = left.size() / frame_bytes * frame_bytes;
    values.resize(whole / sample_bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = SampleAt(pcm, std::span(left).subspan(i * sample_bytes, sample_bytes));
      if (!(values[i] >= -1e6f && values[i] <= 1e6f)) values[i] = 0;  // not a number, or no sound
    }
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(whole));
    MINICPM_TRY(converter.Push(values));
  }
  return {};
}

}  // namespace

bool LooksLikeAvi(std::span<const std::byte> head) {
  return head.size() >= 12 && FourLetters(head, 0) == "RIFF" && FourLetters(head, 8) == "AVI ";
}

Result<std::unique_ptr<VideoReader>> OpenAvi(std::unique_ptr<ByteSource> source, const VideoLimits& limits) {
  auto reader = std::make_unique<AviReader>(std::move(source), limits);
  MINICPM_TRY(reader->Open(limits));
  return reader;
}

Result<std::optional<Samples>> LoadAviSound(ByteSource& source, const AudioLimits& limits) {
  MINICPM_ASSIGN(const AviFile file, ReadAviHeaders(source));
  const auto stream = FirstOf(file, "auds");
  if (!stream.has_value()) return std::nullopt;
  MINICPM_ASSIGN(const PcmFormat pcm, ReadFormat(source, file.streams[*stream].format));
  MINICPM_ASSIGN(SoundConverter converter, SoundConverter::Create(pcm.rate, pcm.channels, source.name(), limits));
  constexpr int64_t kMaxChunks = 100'000'000;
  MINICPM_ASSIGN(const auto chunks, FindAviChunks(source, file, *stream, kMaxChunks));
  std::vector<std::byte> left;
  for (const AviChunk& chunk : chunks) {
    MINICPM_TRY(CheckChunk(source, chunk, "the sound"));
    MINICPM_TRY(PushChunk(source, pcm, chunk, left, converter));
  }
  MINICPM_ASSIGN(Samples samples, converter.Finish());
  return samples;
}

}  // namespace minicpm
