// Normalisation of one row of n floats. Sums run in a fixed order that depends on n only.
// y may be x; weight and bias are [n]. Pointers may be aligned to the element only.
#pragma once

#include <cstdint>

namespace minicpm::kernels {

struct NormKernels {
  // y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias
  void (*layer_norm)(const float* x, int64_t n, const float* weight, const float* bias, float eps, float* y);
  // y = x / sqrt(mean(x^2) + eps) * weight
  void (*rms_norm)(const float* x, int64_t n, const float* weight, float eps, float* y);
};

#define MINICPM_ISA(name) extern const NormKernels name##_norm;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
