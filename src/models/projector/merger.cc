// Implementation of merger.h: linear_2(gelu(linear_1(norm(window)))), the exact GELU.
#include "models/projector/merger.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/linear.h"

namespace minicpm {
namespace {

constexpr int64_t kRowsPerPiece = 64;  // about 3.3 GFLOP at D = 1152

}  // namespace

Status VisitMerger(const MergerConfig& c, const std::string& p, TensorVisitor& v, MergerWeights& w) {
  const int64_t width = 4 * c.n_input;
  MINICPM_TRY(VisitLayerNorm(v, p + "pre_norm", width, w.pre_norm));
  MINICPM_TRY(VisitLinear(v, p + "linear_1", width, width, HasBias::kYes, w.linear_1));
  return VisitLinear(v, p + "linear_2", c.n_embed, width, HasBias::kYes, w.linear_2);
}

MergerRun::MergerRun(const MergerConfig& config, const MergerWeights& weights, ConstMatrix x, int64_t grid_cols,
                     Matrix out, int item)
    : config_(config), weights_(weights), x_(x), grid_cols_(grid_cols), out_(out), item_(item) {
  MINICPM_CHECK(grid_cols > 0 && grid_cols % 2 == 0 && x.rows % (2 * grid_cols) == 0 && 4 * out.rows == x.rows);
}

bool MergerRun::Step(Compute& compute) {
  const int64_t d = config_.n_input;
  const int64_t n = std::min(kRowsPerPiece, out_.rows - next_);
  const int64_t windows_per_row = grid_cols_ / 2;
  ArenaScope scope(compute.arena());
  Matrix rows = compute.arena().NewMatrix(n, 4 * d);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t window = next_ + i;
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t row = window / windows_per_row * 2 + j / 2;
      const int64_t col = window % windows_per_row * 2 + j % 2;
      std::memcpy(rows.row(i) + j * d, x_.row(row * grid_cols_ + col), static_cast<size_t>(d) * sizeof(float));
    }
  }
  Matrix inner = compute.arena().NewMatrix(n, 4 * d);
  const LinearJob job = {weights_.linear_1.view(), inner, Activation::kGeluErf};
  NormLinears(compute, rows, {weights_.pre_norm.weight.data(), weights_.pre_norm.bias.data(), config_.eps}, {&job, 1});
  Linear(compute, inner, weights_.linear_2.view(), out_.Rows(next_, n));
  next_ += n;
  if (next_ < out_.rows) return false;
  Report(compute, {"merger.out", -1, item_}, out_);
  return true;
}

}  // namespace minicpm
