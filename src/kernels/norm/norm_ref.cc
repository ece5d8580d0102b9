// Scalar truth of norm.h. Sums are in double, so that the other instruction sets are judged by something better than
// themselves.
#include <cmath>

#include "kernels/norm/norm.h"

namespace minicpm::kernels {
namespace {

void LayerNorm(const float* x, int64_t n, const float* weight, const float* bias, float eps, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps));
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - mean) * scale) * weight[i] + bias[i];
}

void RmsNorm(const float* x, int64_t n, const float* weight, float eps, float* y) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps));
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i] * scale) * weight[i];
}

}  // namespace

extern const NormKernels scalar_norm = {LayerNorm, RmsNorm};

}  // namespace minicpm::kernels
