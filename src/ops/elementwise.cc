// Implementation of elementwise.h.
#include "ops/elementwise.h"

#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/table.h"
#include "ops/rows.h"

namespace minicpm {

void SiluMul(Compute& compute, Matrix gate, ConstMatrix up) {
  MINICPM_CHECK(gate.rows == up.rows && gate.cols == up.cols);
  auto* const kernel = compute.kernels().elementwise->silu_mul;
  ForPieces(compute, gate.rows, gate.cols, [&](int64_t row, int64_t begin, int64_t end) {
    kernel(gate.row(row) + begin, up.row(row) + begin, end - begin);
  });
}

void Add(Compute& compute, ConstMatrix x, Matrix y) {
  MINICPM_CHECK(x.rows == y.rows && x.cols == y.cols);
  auto* const kernel = compute.kernels().elementwise->add;
  ForPieces(compute, x.rows, x.cols, [&](int64_t row, int64_t begin, int64_t end) {
    kernel(x.row(row) + begin, end - begin, y.row(row) + begin);
  });
}

void FillRopeTable(std::span<const int32_t> positions, double theta, int64_t rotary_dim, RopeTable table) {
  const int64_t half = rotary_dim / 2;
  const auto rows = static_cast<int64_t>(positions.size());
  MINICPM_CHECK(rotary_dim > 0 && rotary_dim % 2 == 0);
  MINICPM_CHECK(table.cos.rows == rows && table.sin.rows == rows && table.cos.cols == half && table.sin.cols == half);
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
    for (int64_t r = 0; r < rows; ++r) {
      const double angle = positions[static_cast<size_t>(r)] * frequency;
      table.cos.row(r)[i] = static_cast<float>(std::cos(angle));
      table.sin.row(r)[i] = static_cast<float>(std::sin(angle));
    }
  }
}

void ApplyRope(Compute& compute, Matrix x, int64_t head_dim, const RopeTable& table) {
  MINICPM_CHECK(head_dim > 0 && x.cols % head_dim == 0 && table.cos.rows == x.rows && table.sin.rows == x.rows);
  const int64_t half = table.cos.cols;
  MINICPM_CHECK(half > 0 && 2 * half <= head_dim && table.sin.cols == half);
  auto* const kernel = compute.kernels().elementwise->rotate;
  ForRows(compute, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < x.cols; h += head_dim) {
        kernel(x.row(r) + h, half, table.cos.row(r), table.sin.row(r));
      }
    }
  });
}

}  // namespace minicpm
