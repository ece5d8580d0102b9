// Shared parts of the format readers: the pixel limit, error sentences, CMYK. Not for any format.
#include "image/codec.h"

#include <limits>

namespace minicpm {

Status CheckPixels(const CodecInput& in, const char* format, uint64_t width, uint64_t height) {
  constexpr uint64_t kMaxSide = std::numeric_limits<int>::max() / 4;  // 3 * width and x + width stay within an int
  if (width == 0 || height == 0) {
    return Broken(in, format, "it has no pixels (" + std::to_string(width) + " x " + std::to_string(height) + ")");
  }
  const uint64_t max_pixels = in.limits.max_pixels;
  if (width > kMaxSide || height > kMaxSide || width > max_pixels / height) {
    const std::string pixels = width <= kMaxSide && height <= kMaxSide ? " = " + std::to_string(width * height) : "";
    return Fail(ErrorCode::kResourceExhausted, in.name + ": the " + format + " picture has " + std::to_string(width) +
                                                   " x " + std::to_string(height) + pixels + " pixels, the limit is " +
                                                   std::to_string(max_pixels));
  }
  return {};
}

Result<Image> NewImage(const CodecInput& in, const char* format, uint64_t width, uint64_t height) {
  MINICPM_TRY(CheckPixels(in, format, width, height));
  Image image{.width = static_cast<int>(width), .height = static_cast<int>(height), .rgb = {}};
  image.rgb.resize(size_t{3} * width * height);
  return image;
}

std::unexpected<Error> Broken(const CodecInput& in, const char* format, std::string_view what) {
  return Fail(ErrorCode::kCorrupt, in.name + ": broken " + format + " file: " + Printable(what, 200));
}

std::unexpected<Error> NotSupported(const CodecInput& in, const char* format, std::string_view what) {
  return Fail(ErrorCode::kUnsupported,
              in.name + ": " + Printable(what, 200) + ", which is not supported in " + format + " files");
}

void CmykToRgb(const uint8_t* cmyk, size_t n, uint8_t* rgb) {
  for (size_t i = 0; i < n; ++i, cmyk += 4, rgb += 3) {
    const int light = 255 - cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int product = cmyk[c] * light + 128;  // / 255, rounded, without a division
      const int value = light - (((product >> 8) + product) >> 8);
      rgb[c] = static_cast<uint8_t>(value < 0 ? 0 : value);
    }
  }
}

}  // namespace minicpm
