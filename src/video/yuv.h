// 8-bit YCbCr planes -> RGB, ITU-R BT.601. Internal to this room. Not for other depths or matrices: those come from the
// plugin, which converts itself.
#pragma once

#include <cstdint>
#include <span>

#include "image/image.h"

namespace minicpm {

struct YuvLayout {
  int width = 0;
  int height = 0;
  int chroma_x = 2;         // luma columns per chroma sample; 0: no chroma planes
  int chroma_y = 2;         // luma rows per chroma sample
  bool full_range = false;  // 0..255 instead of 16..235 (luma) and 16..240 (chroma)

  size_t luma_bytes() const { return static_cast<size_t>(width) * height; }
  int chroma_width() const { return chroma_x == 0 ? 0 : (width + chroma_x - 1) / chroma_x; }
  int chroma_height() const { return chroma_x == 0 ? 0 : (height + chroma_y - 1) / chroma_y; }
  size_t chroma_bytes() const { return static_cast<size_t>(chroma_width()) * chroma_height(); }
  size_t bytes() const { return luma_bytes() + 2 * chroma_bytes(); }
};

// Planes Y, Cb, Cr one after the other, rows without padding. A chroma sample counts for all pixels it covers, wherever
// the format says it sits: that is what FFmpeg's conversion does when the size stays, and so what the models saw.
// Requires: planes.size() == layout.bytes().
Image YuvToRgb(std::span<const uint8_t> planes, const YuvLayout& layout);

}  // namespace minicpm
