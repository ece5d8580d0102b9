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

// JPEG, PNG, WebP, GIF (first frame), TIFF (first page), BMP, told apart by their content, never by `name`, which only
// stands for the input in messages. EXIF (and XMP) orientation is applied, as Pillow's ImageOps.exif_transpose does.
// Conversion to RGB as Pillow's convert("RGB") (alpha is dropped, not blended; CMYK without a profile), except that
// grey of more than 8 bits keeps its upper 8 (Pillow clips it to white).
//
// A file that ends before its format says it should, or whose JPEG data is damaged, is refused, even where a viewer
// would show the rest: JPEG, PNG, WebP and GIF up to their end marks, TIFF and BMP as far as the first picture's bytes
// go.
//
// Errors: kUnsupported (not one of the formats, or an odd kind of one), kCorrupt (truncated, broken),
// kResourceExhausted (over a limit, with both numbers; found out before memory for the pixels is taken), kNotFound, kIo
// (LoadImage). Memory while decoding, in bytes per pixel: 3 to 6, progressive JPEG 9, TIFF 15 (27 with odd tiles).
// Threads: safe from any number at once. Nothing is printed.
Result<Image> DecodeImage(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits = {});
Result<Image> LoadImage(const std::string& path, const ImageLimits& limits = {});

// Pillow's BICUBIC for uint8 RGB, 0 LSB off: horizontal pass first, as in every Pillow below 12.3. One thread.
// Requires: sizes >= 1.
// Which library's rounding: Pillow's weights have 22 bits of fraction, torchvision's (antialiased, of uint8) fit into
// 16 bits. Results differ by a grey level here and there.
enum class ResizeRounding { kPillow, kTorchvision };
Image ResizeBicubic(const Image& image, int width, int height, ResizeRounding rounding = ResizeRounding::kPillow);

}  // namespace minicpm
