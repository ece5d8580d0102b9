// Implementation of window_merger.h. The four rows of a window lie behind one another, so a window is also one row of
// 4 D values.
#include "models/siglip/window_merger.h"

#include <cmath>
#include <cstring>

#include "ops/group_attention.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace minicpm {

Status VisitWindowMerger(const VisionConfig& c, const std::string& p, TensorVisitor& v, WindowMergerWeights& w) {
  const int64_t d = c.n_embed;
  MINICPM_TRY(VisitLayerNorm(v, p + "layer_norm1", d, w.norm1));
  MINICPM_TRY(VisitLinear(v, p + "self_attn.q_proj", d, d, HasBias::kYes, w.q));
  MINICPM_TRY(VisitLinear(v, p + "self_attn.k_proj", d, d, HasBias::kYes, w.k));
  MINICPM_TRY(VisitLinear(v, p + "self_attn.v_proj", d, d, HasBias::kYes, w.v));
  MINICPM_TRY(VisitLinear(v, p + "self_attn.out_proj", d, d, HasBias::kYes, w.out));
  MINICPM_TRY(VisitLayerNorm(v, p + "pre_norm", 4 * d, w.pre_norm));
  MINICPM_TRY(VisitLinear(v, p + "linear_1", 4 * c.n_ffn, 4 * d, HasBias::kYes, w.linear_1));
  return VisitLinear(v, p + "linear_2", d, 4 * c.n_ffn, HasBias::kYes, w.linear_2);
}

void MergeWindows(Compute& compute, const VisionConfig& c, const WindowMergerWeights& w, ConstMatrix x,
                  int64_t grid_cols, int64_t first, Matrix out) {
  const int64_t d = c.n_embed;
  const int64_t n = out.rows;
  const int64_t windows_per_row = grid_cols / 2;
  ArenaScope scope(compute.arena());
  Matrix rows = compute.arena().NewMatrix(4 * n, d);
  for (int64_t i = 0; i < 4 * n; ++i) {
    const int64_t window = first + i / 4;
    const int64_t row = window / windows_per_row * 2 + i % 4 / 2;
    const int64_t col = window % windows_per_row * 2 + i % 2;
    std::memcpy(rows.row(i), x.row(row * grid_cols + col), static_cast<size_t>(d) * sizeof(float));
  }
  Matrix q = compute.arena().NewMatrix(4 * n, d);
  Matrix k = compute.arena().NewMatrix(4 * n, d);
  Matrix v = compute.arena().NewMatrix(4 * n, d);
  const LinearJob projections[] = {{w.q.view(), q}, {w.k.view(), k}, {w.v.view(), v}};
  NormLinears(compute, rows, {w.norm1.weight.data(), w.norm1.bias.data(), c.eps}, projections);
  GroupAttention(compute, q, k, v, 4, c.n_heads, 1.0f / std::sqrt(static_cast<float>(c.head_dim())), q);
  LinearAdd(compute, q, w.out.view(), rows);

  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      const float top = rows.row(4 * i)[j] + rows.row(4 * i + 1)[j];
      const float bottom = rows.row(4 * i + 2)[j] + rows.row(4 * i + 3)[j];
      out.row(i)[j] = 0.25f * (top + bottom);
    }
  }
  const Matrix whole(rows.data, n, 4 * d);
  Matrix inner = compute.arena().NewMatrix(n, 4 * c.n_ffn);
  const LinearJob job = {w.linear_1.view(), inner, Activation::kGeluTanh};
  NormLinears(compute, whole, {w.pre_norm.weight.data(), w.pre_norm.bias.data(), c.eps}, {&job, 1});
  LinearAdd(compute, inner, w.linear_2.view(), out);
}

}  // namespace minicpm
