// What happens to a block of sums before it becomes part of y: bias, activation, store or add. Private to src/ops:
// shared by the float and the packed products.
#pragma once

#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "ops/linear.h"

namespace minicpm {

struct Epilogue {
  const float* bias = nullptr;
  kernels::ActivationFn act = nullptr;  // null: none
  bool add = false;
  Matrix y;
};

Epilogue MakeEpilogue(Compute& compute, const LinearJob& job);

// y[row.., col..] = act(c + bias), or y += ...; c is overwritten.
void Finish(const kernels::MatmulKernels& kernel, const Epilogue& e, float* c, int64_t c_stride, int64_t row,
            int64_t rows, int64_t col, int64_t cols);

}  // namespace minicpm
