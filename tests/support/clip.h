// Small grey clips as Y4M for tests and for measuring `minicpm watch`: a part that is defective from some frame on, a
// fixed view with one moving part. Not for tests of the reader itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace minicpm::test {

struct ClipSpec {
  int width = 448;
  int height = 448;
  int n_frames = 30;
  int fps = 30;
  int defect_from = -1;      // the frame from which on a scratch crosses the part; -1: never
  bool moving_part = false;  // a bright square that wanders in the upper left eighth
  int noise = 0;             // every pixel differs by -noise..noise, anew in each frame
};

inline uint32_t ClipHash(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

// [height * width] of frame `number`.
inline std::vector<uint8_t> ClipLuma(const ClipSpec& spec, int number) {
  std::vector<uint8_t> luma(static_cast<size_t>(spec.width) * spec.height);
  const int square = std::max(spec.width / 24, 2);
  const int square_x = spec.width / 32 + (7 * number) % std::max(spec.width / 4 - square, 1);
  const int square_y = spec.height / 16 + (3 * number) % std::max(spec.height / 12, 1);
  const bool defect = spec.defect_from >= 0 && number >= spec.defect_from;
  size_t i = 0;
  for (int y = 0; y < spec.height; ++y) {
    for (int x = 0; x < spec.width; ++x, ++i) {
      const uint32_t texture = ClipHash(static_cast<uint32_t>(x / 4) * 65537U + static_cast<uint32_t>(y / 4));
      int value = 90 + ((x / 32 + y / 32) % 2 != 0 ? 40 : 0) + static_cast<int>(texture % 16);
      // The part: a bright disc in the middle; its defect: a dark scratch from the upper left to the lower right.
      const int64_t dx = 2 * int64_t{x} - spec.width;
      const int64_t dy = 2 * int64_t{y} - spec.height;
      const int64_t radius = std::min(spec.width, spec.height) / 2;
      if (dx * dx + dy * dy < radius * radius) {
        value = 200 + static_cast<int>(texture % 8);
        if (defect && std::abs(dx - dy) < radius / 5) value = 20;
      }
      if (spec.moving_part && x >= square_x && x < square_x + square && y >= square_y && y < square_y + square) {
        value = 250;
      }
      if (spec.noise > 0) {
        const uint32_t random = ClipHash(static_cast<uint32_t>(i) * 31U + ClipHash(static_cast<uint32_t>(number)));
        value += static_cast<int>(random % (2 * static_cast<uint32_t>(spec.noise) + 1)) - spec.noise;
      }
      luma[i] = static_cast<uint8_t>(std::clamp(value, 0, 255));
    }
  }
  return luma;
}

// Whether everything was written. Requires: even width and height.
inline bool WriteClip(const std::string& path, const ClipSpec& spec) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  bool good = std::fprintf(file, "YUV4MPEG2 W%d H%d F%d:1 Ip A1:1 C420jpeg\n", spec.width, spec.height, spec.fps) > 0;
  const std::vector<uint8_t> grey(static_cast<size_t>(spec.width) * spec.height / 2, 128);
  for (int number = 0; number < spec.n_frames && good; ++number) {
    const std::vector<uint8_t> luma = ClipLuma(spec, number);
    good = std::fputs("FRAME\n", file) >= 0 && std::fwrite(luma.data(), 1, luma.size(), file) == luma.size() &&
           std::fwrite(grey.data(), 1, grey.size(), file) == grey.size();
  }
  return std::fclose(file) == 0 && good;
}

}  // namespace minicpm::test
