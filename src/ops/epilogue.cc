// Implementation of epilogue.h.
#include "ops/epilogue.h"

#include <algorithm>

#include "kernels/table.h"

namespace minicpm {
namespace {

// Rows handled at a time: they stay in the first-level cache from step to step.
constexpr int64_t kStoreRows = 64;

kernels::ActivationFn KernelOf(Compute& compute, Activation act) {
  const kernels::ElementwiseKernels& kernel = *compute.kernels().elementwise;
  switch (act) {
    case Activation::kNone:
      return nullptr;
    case Activation::kGeluTanh:
      return kernel.gelu_tanh;
    case Activation::kGeluErf:
      return kernel.gelu_erf;
    case Activation::kRelu:
      return kernel.relu;
  }
  return nullptr;
}

}  // namespace

Epilogue MakeEpilogue(Compute& compute, const LinearJob& job) {
  return {job.w.bias, KernelOf(compute, job.act), job.add, job.y};
}

void Finish(const kernels::MatmulKernels& kernel, const Epilogue& e, float* c, int64_t c_stride, int64_t row,
            int64_t rows, int64_t col, int64_t cols) {
  for (int64_t r = 0; r < rows; r += kStoreRows) {
    const int64_t n = std::min(kStoreRows, rows - r);
    float* const part = c + r * c_stride;
    if (e.bias != nullptr) kernel.add_bias(e.bias + col, n, cols, part, c_stride);
    if (e.act != nullptr) {
      if (cols == c_stride) {
        e.act(part, n * cols);
      } else {
        for (int64_t i = 0; i < n; ++i) e.act(part + i * c_stride, cols);
      }
    }
    kernel.store(part, c_stride, n, cols, e.add, e.y.row(row + r) + col, e.y.stride);
  }
}

}  // namespace minicpm
