// Which input samples make an output sample of Pillow's bicubic, and how much each weighs, in 22-bit fixed point.
// Source of the rules: Pillow's Resample.c; torch's antialiased interpolation of uint8. Not for applying them:
// resize_kernels.h.
#pragma once

#include <cstdint>
#include <vector>

#include "image/image.h"
#include "image/resize_kernels.h"

namespace minicpm {

// Taps of one axis, made for a range of outputs at a time so that very long axes need little memory.
class TapBuilder {
 public:
  // Requires: n_in, n_out >= 1.
  TapBuilder(int n_in, int n_out, ResizeRounding rounding);

  // Taps of every output of this axis, a multiple of 4.
  int n_taps() const { return n_taps_; }
  // Taps of outputs [begin, begin + n). Where n_in >= n_taps(), first + n_taps() <= n_in holds, else first = 0.
  // Lifetime: the table points into this object and is replaced by the next call.
  TapTable Build(int begin, int n);

 private:
  struct Range {
    int64_t first;
    int64_t count;
    double centre;
  };
  Range RangeOf(int x) const;
  double WeightOf(const Range& range, int64_t k) const;
  double SumOf(const Range& range) const;
  int TorchvisionBits(int n_out) const;

  int n_in_;
  double scale_;
  double support_;
  double inverse_filter_scale_;
  int n_taps_ = 0;
  int fraction_bits_ = 22;  // of a weight, as rounded; the table always holds 22
  std::vector<int32_t> first_;
  std::vector<int32_t> weight_;
  std::vector<int16_t> hi_;
  std::vector<int16_t> lo_;
};

}  // namespace minicpm
