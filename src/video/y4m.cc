// Reads the header line, finds every frame once at opening, converts frames when asked. See y4m.h for what it is not
// for.
#include "video/y4m.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "video/yuv.h"

namespace minicpm {
namespace {

constexpr std::string_view kMagic = "YUV4MPEG2";
constexpr std::string_view kFrame = "FRAME";
constexpr size_t kMaxHeader = 4096;
constexpr size_t kMaxFrameHeader = 256;
constexpr double kUnknownRate = 25;  // F0:0, as FFmpeg takes it

struct Header {
  YuvLayout layout;
  double fps = kUnknownRate;
  uint64_t bytes = 0;  // with its newline
};

struct Chroma {
  std::string_view tag;
  int x, y;
};
constexpr Chroma kChromas[] = {{"420", 2, 2}, {"420jpeg", 2, 2}, {"420mpeg2", 2, 2}, {"420paldv", 2, 2},
                               {"422", 2, 1}, {"444", 1, 1},     {"mono", 0, 0}};

template <class T>
std::optional<T> Number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::unexpected<Error> Broken(const ByteSource& source, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, source.name() + ": broken Y4M file: " + what);
}

// The line at `offset` without its newline; nullopt when none ends within `most` bytes.
Result<std::optional<std::string>> ReadLine(ByteSource& source, uint64_t offset, size_t most) {
  std::string line(std::min<uint64_t>(most, source.size() - offset), '\0');
  MINICPM_TRY(source.ReadAt(offset, std::as_writable_bytes(std::span(line))));
  const size_t end = line.find('\n');
  if (end == std::string::npos) return std::nullopt;
  line.resize(end);
  return line;
}

Status ReadRate(const ByteSource& source, std::string_view value, Header& header) {
  const size_t colon = value.find(':');
  if (colon == std::string_view::npos) return Broken(source, "the frame rate \"" + Printable(value, 40) + "\"");
  const auto n = Number<int64_t>(value.substr(0, colon));
  const auto d = Number<int64_t>(value.substr(colon + 1));
  if (n == 0 && d == 0) return {};
  if (!n.has_value() || !d.has_value() || *n < 1 || *d < 1 || *n > 1'000'000'000 || *d > 1'000'000'000) {
    return Broken(source, "the frame rate \"" + Printable(value, 40) + "\", expected for example 30000:1001");
  }
  header.fps = static_cast<double>(*n) / static_cast<double>(*d);
  return {};
}

Status ReadParameter(const ByteSource& source, std::string_view word, Header& header) {
  const std::string_view value = word.substr(1);
  switch (word[0]) {
    case 'W':
    case 'H': {
      const auto size = Number<int>(value);
      if (!size.has_value() || *size < 1 || *size > 65535) {
        return Broken(source, "\"" + Printable(word, 40) + "\" as a size, expected 1 to 65535");
      }
      (word[0] == 'W' ? header.layout.width : header.layout.height) = *size;
      return {};
    }
    case 'F':
      return ReadRate(source, value, header);
    case 'C': {
      for (const Chroma& chroma : kChromas) {
        if (chroma.tag != value) continue;
        header.layout.chroma_x = chroma.x;
        header.layout.chroma_y = chroma.y;
        return {};
      }
      return Fail(ErrorCode::kUnsupported,
                  source.name() + ": Y4M files with C" + Printable(value, 40) +
                      " pixels need the FFmpeg plugin, without it 8-bit C420, C422, C444 and " + "Cmono are read");
    }
    default:  // interlacing, pixel shape, comments: nothing here depends on them
      return {};
  }
}

Result<Header> ReadHeader(ByteSource& source, const VideoLimits& limits) {
  MINICPM_ASSIGN(const auto line, ReadLine(source, 0, kMaxHeader));
  if (!line.has_value()) return Broken(source, "its first line does not end within 4096 bytes");
  Header header;
  header.bytes = line->size() + 1;
  std::optional<bool> full_range;
  std::string_view rest = std::string_view(*line).substr(std::min(kMagic.size(), line->size()));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "XCOLORRANGE=FULL") full_range = true;
    if (word == "XCOLORRANGE=LIMITED") full_range = false;
    if (!word.empty()) MINICPM_TRY(ReadParameter(source, word, header));
  }
  if (header.layout.width == 0 || header.layout.height == 0)
    return Broken(source, "it does not say its width and height");
  const uint64_t pixels = header.layout.luma_bytes();
  if (pixels > limits.max_pixels) {
    return Fail(ErrorCode::kResourceExhausted, source.name() + ": a frame has " + std::to_string(header.layout.width) +
                                                   " x " + std::to_string(header.layout.height) +
                                                   " pixels, the limit is " + std::to_string(limits.max_pixels));
  }
  // Grey without a word about its range is full-range, as FFmpeg has it.
  header.layout.full_range = full_range.value_or(header.layout.chroma_x == 0);
  return header;
}

class Y4mReader : public VideoReader {
 public:
  Y4mReader(std::unique_ptr<ByteSource> source, const Header& header)
      : source_(std::move(source)), layout_(header.layout) {
    info_.width = layout_.width;
    info_.height = layout_.height;
    info_.fps = header.fps;
    info_.format = "y4m";
  }

  // Walks over the frames' headers: FRAME lines may have parameters and so differ in length.
  Status FindFrames(uint64_t offset, const VideoLimits& limits) {
    while (offset < source_->size()) {
      const std::string number = std::to_string(frames_.size());
      if (static_cast<int64_t>(frames_.size()) >= limits.max_frames) {
        return Fail(ErrorCode::kResourceExhausted, source_->name() + ": the video has more than " +
                                                       std::to_string(limits.max_frames) +
                                                       " frames, which is the limit");
      }
      MINICPM_ASSIGN(const uint64_t header_bytes, FrameHeader(offset, number));
      offset += header_bytes;
      if (source_->size() - offset < layout_.bytes()) return Broken(*source_, "it ends inside of frame " + number);
      frames_.push_back(offset);
      offset += layout_.bytes();
    }
    if (frames_.empty()) return Broken(*source_, "it has no frames");
    frames_.shrink_to_fit();
    info_.n_frames = static_cast<int64_t>(frames_.size());
    info_.duration_s = static_cast<double>(info_.n_frames) / info_.fps;
    return {};
  }

  const VideoInfo& info() const override { return info_; }

  Result<Image> Frame(int64_t index) override {
    MINICPM_CHECK(index >= 0 && index < info_.n_frames);
    planes_.resize(layout_.bytes());
    MINICPM_TRY(source_->ReadAt(frames_[static_cast<size_t>(index)], std::as_writable_bytes(std::span(planes_))));
    return YuvToRgb(planes_, layout_);
  }

 private:
  Result<uint64_t> FrameHeader(uint64_t offset, const std::string& number) {
    // Nearly always exactly this; one short read tells.
    constexpr std::string_view kPlain = "FRAME\n";
    char begin[kPlain.size()] = {};
    if (source_->size() - offset >= kPlain.size()) {
      MINICPM_TRY(source_->ReadAt(offset, std::as_writable_bytes(std::span(begin))));
      if (std::string_view(begin, sizeof begin) == kPlain) return kPlain.size();
    }
    MINICPM_ASSIGN(const auto line, ReadLine(*source_, offset, kMaxFrameHeader));
    if (!line.has_value() || !line->starts_with(kFrame) ||
        (line->size() > kFrame.size() && (*line)[kFrame.size()] != ' ')) {
      return Broken(*source_, "frame " + number + " does not begin with a FRAME line");
    }
    return line->size() + 1;
  }

  std::unique_ptr<ByteSource> source_;
  YuvLayout layout_;
  VideoInfo info_;
  std::vector<uint64_t> frames_;  // where the planes begin
  std::vector<uint8_t> planes_;
};

}  // namespace

bool LooksLikeY4m(std::span<const std::byte> head) {
  return head.size() >= kMagic.size() && std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<std::unique_ptr<VideoReader>> OpenY4m(std::unique_ptr<ByteSource> source, const VideoLimits& limits) {
  MINICPM_ASSIGN(const Header header, ReadHeader(*source, limits));
  auto reader = std::make_unique<Y4mReader>(std::move(source), header);
  MINICPM_TRY(reader->FindFrames(header.bytes, limits));
  return reader;
}

}  // namespace minicpm
