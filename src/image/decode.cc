// DecodeImage and LoadImage: limits on bytes, which format it is, orientation. Not for any format's details.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "image/codec.h"
#include "image/image.h"

namespace minicpm {
namespace {

using Decoder = Result<Decoded> (*)(const CodecInput& in);

// By the first bytes alone; nullptr when no format here begins so.
Decoder DecoderFor(std::string_view head) {
  using std::string_view_literals::operator""sv;
  if (head.starts_with("\xff\xd8\xff"sv)) return DecodeJpeg;
  if (head.starts_with("\x89PNG\r\n\x1a\n"sv)) return DecodePng;
  if (head.starts_with("RIFF"sv) && head.size() >= 12 && head.substr(8, 4) == "WEBP"sv) return DecodeWebp;
  if (head.starts_with("GIF87a"sv) || head.starts_with("GIF89a"sv)) return DecodeGif;
  if (head.starts_with("II*\0"sv) || head.starts_with("MM\0*"sv)) return DecodeTiff;
  if (head.starts_with("II+\0"sv) || head.starts_with("MM\0+"sv)) return DecodeTiff;
  if (head.starts_with("BM"sv)) return DecodeBmp;
  return nullptr;
}

std::unexpected<Error> TooManyBytes(const std::string& name, uint64_t found, const char* at_least, uint64_t limit) {
  return Fail(ErrorCode::kResourceExhausted, name + ": the picture file has " + at_least + std::to_string(found) +
                                                 " bytes, the limit is " + std::to_string(limit));
}

std::unexpected<Error> OutOfMemory(const std::string& name) {
  return Fail(ErrorCode::kResourceExhausted, name + ": not enough memory for the picture");
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<std::vector<std::byte>> ReadFile(const std::string& path, const std::string& name, const ImageLimits& limits) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const auto code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Fail(code, name + ": cannot open the picture: " + std::strerror(errno));
  }
  std::vector<std::byte> bytes;
  constexpr size_t kPiece = size_t{256} << 10;
  while (true) {  // in pieces, because a pipe or device tells no size and a file may grow
    const size_t had = bytes.size();
    bytes.resize(had + kPiece);
    const size_t n = std::fread(bytes.data() + had, 1, kPiece, file.get());
    bytes.resize(had + n);
    if (bytes.size() > limits.max_bytes) return TooManyBytes(name, bytes.size(), "at least ", limits.max_bytes);
    if (n < kPiece) break;
  }
  if (std::ferror(file.get()) != 0) {
    return Fail(ErrorCode::kIo, name + ": cannot read the picture: " + std::strerror(errno));
  }
  return bytes;
}

Result<Image> Decode(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits) {
  if (bytes.size() > limits.max_bytes) return TooManyBytes(name, bytes.size(), "", limits.max_bytes);
  if (bytes.empty()) return Fail(ErrorCode::kCorrupt, name + ": the picture file is empty");
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Decoder decoder = DecoderFor(head.substr(0, 16));
  if (decoder == nullptr) {
    return Fail(ErrorCode::kUnsupported, name + ": not a JPEG, PNG, WebP, GIF, TIFF or BMP picture (it begins with \"" +
                                             Printable(head, 8) + "\")");
  }
  MINICPM_ASSIGN(Decoded decoded, decoder(CodecInput{.bytes = bytes, .name = name, .limits = limits}));
  ApplyOrientation(decoded.orientation, decoded.image);
  return std::move(decoded.image);
}

}  // namespace

Result<Image> DecodeImage(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits) {
  const std::string safe_name = Printable(name, 300);
  try {
    return Decode(bytes, safe_name, limits);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(safe_name);
  }
}

Result<Image> LoadImage(const std::string& path, const ImageLimits& limits) {
  const std::string safe_name = Printable(path, 300);
  try {
    MINICPM_ASSIGN(const auto bytes, ReadFile(path, safe_name, limits));
    return Decode(bytes, safe_name, limits);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(safe_name);
  }
}

}  // namespace minicpm
