// Elementwise verbs on runs of n floats: activations, gate, sum, rotation. An element's result depends on that element
// only. Pointers may be aligned to the element only. Relative error of the activations against exact arithmetic: below
// 1e-6 of max(|x|, |result|).
#pragma once

#include <cstdint>

namespace minicpm::kernels {

// y[i] = f(y[i]), i < n
using ActivationFn = void (*)(float* y, int64_t n);

struct ElementwiseKernels {
  // y += x
  void (*add)(const float* x, int64_t n, float* y);
  // gate = gate / (1 + exp(-gate)) * up
  void (*silu_mul)(float* gate, const float* up, int64_t n);
  // y = y / (1 + exp(-gate))
  void (*sigmoid_mul)(const float* gate, int64_t n, float* y);
  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  ActivationFn gelu_tanh;
  // 0.5 x (1 + erf(x / sqrt(2)))
  ActivationFn gelu_erf;
  // max(x, 0)
  ActivationFn relu;
  // Rotates pairs (x[i], x[i + half]) by the angle with cosine c[i] and sine s[i], i < half:
  // x[i], x[i + half] = x[i] c[i] - x[i + half] s[i], x[i + half] c[i] + x[i] s[i]
  void (*rotate)(float* x, int64_t half, const float* c, const float* s);
};

#define MINICPM_ISA(name) extern const ElementwiseKernels name##_elementwise;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
