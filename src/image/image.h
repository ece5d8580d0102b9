// Encoded bytes -> RGB pixels, resized exactly as Pillow does it. Not for slicing rules (slicing.h) or models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace minicpm {

// 8-bit RGB, row-major, interleaved, no padding: pixel (x, y) at 3 * (y * width + x).
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
};

struct ImageLimits {
  uint64_t max_bytes = 64ull << 20;   // encoded size
  uint64_t max_pixels = 178'956'970;  // Pillow's decompression bomb warning level
};

// JPEG, PNG, WebP, GIF (first frame), TIFF, BMP, told apart by their content. EXIF orientation is applied; conversion
// to RGB as Pillow's convert("RGB"), except 16-bit grey, which is scaled by >> 8. `name` stands for the input in
// messages. Errors: kUnsupported (not one of the formats), kCorrupt (truncated, broken), kResourceExhausted (over a
// limit, with both numbers).
Result<Image> DecodeImage(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits = {});
Result<Image> LoadImage(const std::string& path, const ImageLimits& limits = {});

// Pillow's BICUBIC for uint8 RGB, 0 LSB off (preprocessing section 2). Requires: sizes >= 1.
Image ResizeBicubic(const Image& image, int width, int height);

}  // namespace minicpm
