// Tap ranges and fixed-point weights, in the same double arithmetic and order of operations as Pillow's Resample.c.
// Not for speed: this runs once per axis, the kernels once per pixel.
#include "image/resize_taps.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace minicpm {
namespace {

// Cubic convolution with a = -0.5, in Horner form.
double Cubic(double x) {
  constexpr double kA = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

// Rounds half away from zero.
int32_t ToFixed(double weight, int bits) {
  return static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << bits));
}

}  // namespace

TapBuilder::TapBuilder(int n_in, int n_out, ResizeRounding rounding) : n_in_(n_in) {
  MINICPM_CHECK(n_in >= 1 && n_out >= 1);
  const bool pillow = rounding == ResizeRounding::kPillow;
  // Pillow keeps the box in float: above 2^24 that rounds the length.
  scale_ = (pillow ? static_cast<double>(static_cast<float>(n_in)) : static_cast<double>(n_in)) / n_out;
  const double filter_scale = std::max(scale_, 1.0);
  support_ = 2.0 * filter_scale;
  inverse_filter_scale_ = 1.0 / filter_scale;
  int64_t longest = 1;
  for (int x = 0; x < n_out; ++x) longest = std::max(longest, RangeOf(x).count);
  n_taps_ = static_cast<int>((longest + 3) / 4 * 4);
  if (!pillow) fraction_bits_ = TorchvisionBits(n_out);
}

// As many as leave the largest weight of the whole axis below 2^15.
int TapBuilder::TorchvisionBits(int n_out) const {
  double largest = 0.0;
  for (int x = 0; x < n_out; ++x) {
    const Range range = RangeOf(x);
    const double sum = SumOf(range);
    for (int64_t k = 0; k < range.count; ++k) largest = std::max(largest, WeightOf(range, k) / sum);
  }
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < 1 << 15) ++bits;
  return bits;
}

TapBuilder::Range TapBuilder::RangeOf(int x) const {
  const double centre = (x + 0.5) * scale_;
  const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support_ + 0.5), 0);
  const auto end = std::min<int64_t>(static_cast<int64_t>(centre + support_ + 0.5), n_in_);
  return {.first = first, .count = end - first, .centre = centre};
}

double TapBuilder::WeightOf(const Range& range, int64_t k) const {
  return Cubic((static_cast<double>(k + range.first) - range.centre + 0.5) * inverse_filter_scale_);
}

double TapBuilder::SumOf(const Range& range) const {
  double sum = 0.0;
  for (int64_t k = 0; k < range.count; ++k) sum += WeightOf(range, k);
  return sum;
}

TapTable TapBuilder::Build(int begin, int n) {
  const size_t n_weights = static_cast<size_t>(n) * n_taps_;
  first_.resize(n);
  weight_.assign(n_weights, 0);
  hi_.assign(n_weights, 0);
  lo_.assign(n_weights, 0);
  for (int i = 0; i < n; ++i) {
    const Range range = RangeOf(begin + i);
    const double sum = SumOf(range);
    // Moved left, zero weights in front, where the padding would pass the end.
    const int64_t first = std::max<int64_t>(0, std::min<int64_t>(range.first, int64_t{n_in_} - n_taps_));
    first_[i] = static_cast<int32_t>(first);
    const size_t base = static_cast<size_t>(i) * n_taps_ + (range.first - first);
    for (int64_t k = 0; k < range.count; ++k) {
      double weight = WeightOf(range, k);
      if (sum != 0.0) weight /= sum;
      // (a + 2^(b - 1)) >> b is (a 2^(22 - b) + 2^21) >> 22: fewer bits of fraction need no other kernel.
      const int32_t fixed = ToFixed(weight, fraction_bits_) * (1 << (22 - fraction_bits_));
      const auto lo = static_cast<int16_t>(static_cast<uint16_t>(fixed & 0xffff));
      weight_[base + k] = fixed;
      lo_[base + k] = lo;
      hi_[base + k] = static_cast<int16_t>((fixed - lo) >> 16);
    }
  }
  return {.n_out = n,
          .n_taps = n_taps_,
          .first = first_.data(),
          .weight = weight_.data(),
          .hi = hi_.data(),
          .lo = lo_.data()};
}

}  // namespace minicpm
