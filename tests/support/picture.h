// The test pattern that reference/ and the C++ tests both draw, and the CRC-32 that stands for its pixels.
// Not for pictures of anything.
#pragma once

#include <cstdint>
#include <span>

#include "image/image.h"

namespace minicpm {

// Byte i is x >> 24 after x = i * 2654435761; x ^= x >> 15; x *= 2246822519, all modulo 2^32.
inline Image PatternPicture(int width, int height) {
  Image image{.width = width, .height = height, .rgb = {}};
  image.rgb.resize(size_t{3} * width * height);
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    image.rgb[i] = static_cast<uint8_t>(x >> 24);
  }
  return image;
}

// zlib's CRC-32 (polynomial 0xEDB88320).
inline uint32_t Crc32(std::span<const uint8_t> bytes) {
  uint32_t table[256];
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  uint32_t crc = 0xffffffffu;
  for (const uint8_t byte : bytes) crc = table[(crc ^ byte) & 255] ^ (crc >> 8);
  return crc ^ 0xffffffffu;
}

}  // namespace minicpm
