// Implementation of norm.h: rows over threads, one kernel call a row.
#include "ops/norm.h"

#include "kernels/norm/norm.h"
#include "kernels/table.h"
#include "ops/rows.h"

namespace minicpm {

void LayerNorm(Compute& compute, ConstMatrix x, const float* weight, const float* bias, float eps, Matrix y) {
  MINICPM_CHECK(x.rows == y.rows && x.cols == y.cols);
  auto* const kernel = compute.kernels().norm->layer_norm;
  ForRows(compute, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) kernel(x.row(r), x.cols, weight, bias, eps, y.row(r));
  });
}

void RmsNorm(Compute& compute, ConstMatrix x, const float* weight, float eps, Matrix y) {
  MINICPM_CHECK(x.rows == y.rows && x.cols == y.cols);
  auto* const kernel = compute.kernels().norm->rms_norm;
  ForRows(compute, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) kernel(x.row(r), x.cols, weight, eps, y.row(r));
  });
}

void RmsNormHeads(Compute& compute, Matrix x, const float* weight, int64_t head_dim, float eps) {
  MINICPM_CHECK(head_dim > 0 && x.cols % head_dim == 0);
  auto* const kernel = compute.kernels().norm->rms_norm;
  ForRows(compute, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < x.cols; h += head_dim) kernel(x.row(r) + h, head_dim, weight, eps, x.row(r) + h);
    }
  });
}

}  // namespace minicpm
