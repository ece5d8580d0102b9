// Implementation of group_attention.h. Plain loops: beside the products around it this is next to nothing.
#include "ops/group_attention.h"

#include <algorithm>
#include <cmath>

#include "ops/rows.h"

namespace minicpm {
namespace {

float Dot(const float* a, const float* b, int64_t n) {
  float sum[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sum[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) sum[0] += a[i] * b[i];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

// One group, one head: columns [at, at + dim).
void Attend(ConstMatrix q, ConstMatrix k, ConstMatrix v, int64_t row, int64_t group, int64_t at, int64_t dim,
            float scale, Matrix out) {
  float weight[kMostGroupRows][kMostGroupRows];
  for (int64_t i = 0; i < group; ++i) {
    float largest = -HUGE_VALF;
    for (int64_t j = 0; j < group; ++j) {
      weight[i][j] = scale * Dot(q.row(row + i) + at, k.row(row + j) + at, dim);
      largest = std::max(largest, weight[i][j]);
    }
    float sum = 0;
    for (int64_t j = 0; j < group; ++j) {
      weight[i][j] = std::exp(weight[i][j] - largest);
      sum += weight[i][j];
    }
    for (int64_t j = 0; j < group; ++j) weight[i][j] /= sum;
  }
  for (int64_t i = 0; i < group; ++i) {
    float* to = out.row(row + i) + at;
    for (int64_t c = 0; c < dim; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < group; ++j) sum += weight[i][j] * v.row(row + j)[at + c];
      to[c] = sum;
    }
  }
}

}  // namespace

void GroupAttention(Compute& compute, ConstMatrix q, ConstMatrix k, ConstMatrix v, int64_t group, int64_t n_heads,
                    float scale, Matrix out) {
  MINICPM_CHECK(group >= 1 && group <= kMostGroupRows && q.rows % group == 0 && n_heads > 0 && q.cols % n_heads == 0);
  MINICPM_CHECK(k.rows == q.rows && v.rows == q.rows && out.rows == q.rows);
  MINICPM_CHECK(k.cols == q.cols && v.cols == q.cols && out.cols == q.cols);
  const int64_t dim = q.cols / n_heads;
  ForRows(compute, q.rows / group, group * q.cols, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      for (int64_t h = 0; h < n_heads; ++h) Attend(q, k, v, g * group, group, h * dim, dim, scale, out);
    }
  });
}

}  // namespace minicpm
