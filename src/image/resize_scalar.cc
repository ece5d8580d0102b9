// Resize kernels in plain C++: the truth for the vectorised ones, and what a CPU without AVX2 runs.
// Not for any instruction set beyond the build's baseline.
#include <algorithm>

#include "image/resize_kernels.h"

namespace minicpm {
namespace {

constexpr int kFractionBits = 22;
constexpr uint32_t kHalf = 1u << (kFractionBits - 1);

uint8_t Narrow(uint32_t sum) {
  return static_cast<uint8_t>(std::clamp(static_cast<int32_t>(sum) >> kFractionBits, 0, 255));
}

void Horizontal(const TapTable& taps, const uint8_t* const in[kRowBlock], uint8_t* const out[kRowBlock]) {
  for (int r = 0; r < kRowBlock; ++r) {
    const int32_t* weight = taps.weight;
    for (int x = 0; x < taps.n_out; ++x, weight += taps.n_taps) {
      const uint8_t* p = in[r] + 3 * static_cast<int64_t>(taps.first[x]);
      uint32_t red = kHalf;
      uint32_t green = kHalf;
      uint32_t blue = kHalf;
      for (int k = 0; k < taps.n_taps; ++k, p += 3) {
        const auto w = static_cast<uint32_t>(weight[k]);
        red += w * p[0];
        green += w * p[1];
        blue += w * p[2];
      }
      uint8_t* o = out[r] + 3 * static_cast<int64_t>(x);
      o[0] = Narrow(red);
      o[1] = Narrow(green);
      o[2] = Narrow(blue);
    }
  }
}

// Blocks of columns keep the sums in L1 and let the compiler vectorise the innermost loop.
void Vertical(const int32_t* weight, const int16_t*, const int16_t*, int n_taps, const uint8_t* const* in,
              int64_t n_bytes, uint8_t* out) {
  constexpr int64_t kBlock = 512;
  uint32_t sum[kBlock];
  for (int64_t begin = 0; begin < n_bytes; begin += kBlock) {
    const int64_t n = std::min(kBlock, n_bytes - begin);
    std::fill_n(sum, n, kHalf);
    for (int k = 0; k < n_taps; ++k) {
      const auto w = static_cast<uint32_t>(weight[k]);
      const uint8_t* row = in[k] + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] += w * row[i];
    }
    for (int64_t i = 0; i < n; ++i) out[begin + i] = Narrow(sum[i]);
  }
}

}  // namespace

const ResizeKernels kResizeKernelsScalar = {"scalar", Horizontal, Vertical};

}  // namespace minicpm
