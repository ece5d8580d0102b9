// How much a picture differs from another one, cheaply: for asking a model only when something changed. Not for what
// changed, and not for slices that need no encoding again (src/engine does that, exactly).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "image/image.h"

namespace minicpm::cli {

// The measure: both pictures are divided into 32 x 32 cells of equal size (at least one pixel); a cell's brightness is
// the mean of (77 R + 150 G + 29 B) / 256 over its pixels; the change is the largest difference of one cell's
// brightness, 0..255. A picture of another size counts as 255.
//
// What that means: noise of standard deviation s per pixel, independent from pixel to pixel, becomes about 5 s /
// sqrt(n) with n pixels in a cell (the largest of 1024 differences of means), 1.1 for s = 5 in 640 x 480. An object
// that covers a share a of a cell and differs by d from what is behind it shows as a d.
class ChangeDetector {
 public:
  static constexpr int kCells = 32;
  // Means of cells in 1/256 of a grey level, row after row.
  struct Thumbnail {
    int width = 0;
    int height = 0;
    std::array<uint32_t, size_t{kCells} * kCells> cells = {};
  };

  // Against the picture of the last Accept; nullopt before the first one. Remembers `image` for Accept.
  // Requires: width and height >= 1.
  std::optional<double> Measure(const Image& image);
  // The picture measured last becomes the one that others are held against. Only pictures that were answered should
  // be: so slow changes add up and are seen.
  void Accept() { reference_ = last_; }

 private:
  Thumbnail last_;
  Thumbnail reference_;  // width 0: none yet
};

}  // namespace minicpm::cli
