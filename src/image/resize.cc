// ResizeBicubic: the horizontal pass, then the vertical pass, each to 8 bits, a pass that changes nothing left out.
// Not for the arithmetic inside a row: resize_kernels.h; not for the weights: resize_taps.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "image/image.h"
#include "image/resize_kernels.h"
#include "image/resize_taps.h"

namespace minicpm {
namespace {

constexpr int kTableEntries = 1 << 20;  // weights prepared at a time
constexpr int64_t kOverread = 16;       // bytes a kernel may read past the last pixel of a row

Image HorizontalPass(const Image& image, int width, const ResizeKernels& kernels, ResizeRounding rounding) {
  Image result{.width = width, .height = image.height, .rgb = {}};
  const int64_t in_stride = 3 * int64_t{image.width};
  const int64_t out_stride = 3 * int64_t{width};
  result.rgb.resize(static_cast<size_t>(out_stride) * image.height);
  TapBuilder builder(image.width, width, rounding);
  const int n_table = std::max(1, kTableEntries / builder.n_taps());
  std::vector<uint8_t> padded(static_cast<size_t>(in_stride + kOverread) * kRowBlock);  // rows too near the end
  for (int x = 0; x < width; x += n_table) {
    const TapTable taps = builder.Build(x, std::min(n_table, width - x));
    for (int y = 0; y < image.height; y += kRowBlock) {
      std::array<const uint8_t*, kRowBlock> in;
      std::array<uint8_t*, kRowBlock> out;
      for (int r = 0; r < kRowBlock; ++r) {
        const int row = std::min(y + r, image.height - 1);  // the last rows may be done more than once
        in[r] = image.rgb.data() + in_stride * row;
        out[r] = result.rgb.data() + out_stride * row + 3 * int64_t{x};
        if (static_cast<size_t>(in_stride * (row + 1) + kOverread) <= image.rgb.size()) continue;
        uint8_t* copy = padded.data() + (in_stride + kOverread) * r;
        std::memcpy(copy, in[r], static_cast<size_t>(in_stride));
        in[r] = copy;
      }
      kernels.horizontal(taps, in.data(), out.data());
    }
  }
  return result;
}

Image VerticalPass(const Image& image, int height, const ResizeKernels& kernels, ResizeRounding rounding) {
  Image result{.width = image.width, .height = height, .rgb = {}};
  const int64_t stride = 3 * int64_t{image.width};
  result.rgb.resize(static_cast<size_t>(stride) * height);
  TapBuilder builder(image.height, height, rounding);
  const int n_table = std::max(1, kTableEntries / builder.n_taps());
  std::vector<const uint8_t*> rows(builder.n_taps());
  for (int y = 0; y < height; y += n_table) {
    const TapTable taps = builder.Build(y, std::min(n_table, height - y));
    for (int i = 0; i < taps.n_out; ++i) {
      for (int k = 0; k < taps.n_taps; ++k) {
        const int row = std::min(taps.first[i] + k, image.height - 1);  // past the end only under zero weights
        rows[k] = image.rgb.data() + stride * row;
      }
      const size_t at = static_cast<size_t>(i) * taps.n_taps;
      kernels.vertical(taps.weight + at, taps.hi + at, taps.lo + at, taps.n_taps, rows.data(), stride,
                       result.rgb.data() + stride * (y + i));
    }
  }
  return result;
}

}  // namespace

const ResizeKernels& BestResizeKernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return kResizeKernelsAvx2;
#endif
  return kResizeKernelsScalar;
}

Image ResizeWith(const ResizeKernels& kernels, const Image& image, int width, int height, ResizeRounding rounding) {
  MINICPM_CHECK(image.width >= 1 && image.height >= 1 && width >= 1 && height >= 1);
  MINICPM_CHECK(image.rgb.size() == size_t{3} * image.width * image.height);
  if (width == image.width && height == image.height) return image;
  if (width == image.width) return VerticalPass(image, height, kernels, rounding);
  Image wide = HorizontalPass(image, width, kernels, rounding);
  if (height == image.height) return wide;
  return VerticalPass(wide, height, kernels, rounding);
}

Image ResizeBicubic(const Image& image, int width, int height, ResizeRounding rounding) {
  return ResizeWith(BestResizeKernels(), image, width, height, rounding);
}

}  // namespace minicpm
