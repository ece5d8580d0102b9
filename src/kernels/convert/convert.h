// Bulk conversion between float32 and the 16-bit formats. Widening is exact; narrowing rounds to nearest, ties to even.
// Pointers may be aligned to the element only. Not for single values: see base/half.h.
#pragma once

#include <cstdint>

namespace minicpm::kernels {

struct ConvertKernels {
  // dst[i] = float(src[i]), i < n
  void (*bf16_to_f32)(const uint16_t* src, int64_t n, float* dst);
  void (*f16_to_f32)(const uint16_t* src, int64_t n, float* dst);
  // dst[i] = half(src[i]); NaN stays NaN (payload not kept alike by every instruction set)
  void (*f32_to_f16)(const float* src, int64_t n, uint16_t* dst);
};

#define MINICPM_ISA(name) extern const ConvertKernels name##_convert;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
