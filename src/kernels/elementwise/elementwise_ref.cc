// Scalar truth of elementwise.h. The transcendental functions are the library's, in double.
#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace minicpm::kernels {
namespace {

void AddRun(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void SiluMulRun(float* gate, const float* up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double g = gate[i];
    gate[i] = static_cast<float>(g / (1.0 + std::exp(-g))) * up[i];
  }
}

void SigmoidMulRun(const float* gate, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(y[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))));
}

void GeluTanhRun(float* y, int64_t n) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  for (int64_t i = 0; i < n; ++i) {
    const double x = y[i];
    y[i] = static_cast<float>(0.5 * x * (1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x))));
  }
}

void GeluErfRun(float* y, int64_t n) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  for (int64_t i = 0; i < n; ++i) {
    const double x = y[i];
    y[i] = static_cast<float>(0.5 * x * std::erfc(-x * kSqrtHalf));
  }
}

void ReluRun(float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] > 0.0f ? y[i] : 0.0f;
}

void RotateRun(float* x, int64_t half, const float* c, const float* s) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * c[i] - b * s[i];
    x[i + half] = b * c[i] + a * s[i];
  }
}

}  // namespace

extern const ElementwiseKernels scalar_elementwise = {AddRun,     SiluMulRun, SigmoidMulRun, GeluTanhRun,
                                                      GeluErfRun, ReluRun,    RotateRun};

}  // namespace minicpm::kernels
