// The two inner loops of a Pillow-exact resize, over prepared fixed-point taps; one implementation per instruction set.
// Formula, per output sample: clamp((2^21 + sum_k weight[k] * in[k]) >> 22, 0, 255), the sum modulo 2^32.
//
// Not for choosing taps (resize_taps.h) or allocating (resize.cc). Holds no inline function on purpose: the file is
// included by sources that are compiled for different instruction sets.
#pragma once

#include <cstdint>

namespace minicpm {

// Every output has the same number of taps, a multiple of 4; surplus ones weigh 0. weight = hi * 65536 + lo.
struct TapTable {
  int n_out;
  int n_taps;
  const int32_t*
      first;  // [n_out] first input index; first + n_taps may pass the end of the input, by zero weights only
  const int32_t* weight;  // [n_out * n_taps]
  const int16_t* hi;      // [n_out * n_taps]
  const int16_t* lo;      // [n_out * n_taps]
};

// kRowBlock rows of RGB pixels at once. Requires: from in[r] + 3 * first[x], every x, 3 * n_taps + 4 bytes can be read
// (their values do not matter under zero weights); out[r] holds 3 * n_out bytes. The same pointer may stand twice in
// `in`.
constexpr int kRowBlock = 4;
using HorizontalFn = void (*)(const TapTable& taps, const uint8_t* const in[kRowBlock], uint8_t* const out[kRowBlock]);

// One output row of `n_bytes` samples from `n_taps` input rows. Requires: in[k] holds n_bytes bytes, k < n_taps.
using VerticalFn = void (*)(const int32_t* weight, const int16_t* hi, const int16_t* lo, int n_taps,
                            const uint8_t* const* in, int64_t n_bytes, uint8_t* out);

struct ResizeKernels {
  const char* isa;
  HorizontalFn horizontal;
  VerticalFn vertical;
};

// Plain C++, the truth for the others.
extern const ResizeKernels kResizeKernelsScalar;
#if defined(__x86_64__)
// Requires AVX2 of the CPU.
extern const ResizeKernels kResizeKernelsAvx2;
#endif

// The fastest implementation this CPU can run.
const ResizeKernels& BestResizeKernels();

// ResizeBicubic (image.h) with given kernels; for tests and benches.
struct Image;
enum class ResizeRounding;
Image ResizeWith(const ResizeKernels& kernels, const Image& image, int width, int height, ResizeRounding rounding = {});

}  // namespace minicpm
