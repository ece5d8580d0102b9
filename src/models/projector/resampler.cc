// Implementation of resampler.h. Positions are added to keys only; values are the normed projection itself.
#include "models/projector/resampler.h"

#include <algorithm>
#include <cmath>

#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "quant/packed.h"

namespace minicpm {
namespace {

constexpr int64_t kRowsPerPiece = 128;  // about 10 GFLOP at E = 4096

// [sin(p w_j)] then [cos(p w_j)], j < n_frequencies, w_j = 10000^(-j / n_frequencies).
void FillSinCos(double p, int64_t n_frequencies, float* out) {
  for (int64_t j = 0; j < n_frequencies; ++j) {
    const double angle = p * std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(n_frequencies));
    out[j] = static_cast<float>(std::sin(angle));
    out[n_frequencies + j] = static_cast<float>(std::cos(angle));
  }
}

// Rows [part * E, (part + 1) * E) of the fused input projection: part 0 = q, 1 = k, 2 = v.
LinearWeight InProjection(const ResamplerWeights& w, int64_t n_embed, int part) {
  LinearWeight linear;
  if (IsPacked(w.in_proj.dtype)) {
    linear.weight = quant::PackedRows(w.in_proj, part * n_embed, n_embed);
  } else {
    const size_t row_bytes = static_cast<size_t>(n_embed) * SizeOf(w.in_proj.dtype);
    linear.weight = w.in_proj;
    linear.weight.data =
        static_cast<const std::byte*>(w.in_proj.data) + static_cast<size_t>(part * n_embed) * row_bytes;
    linear.weight.shape = Shape{n_embed, n_embed};
  }
  linear.bias = w.in_proj_bias.data() + part * n_embed;
  return linear;
}

}  // namespace

Status VisitResampler(const ResamplerConfig& c, const std::string& prefix, TensorVisitor& v, ResamplerWeights& w) {
  const int64_t e = c.n_embed;
  MINICPM_TRY(v.Copy(prefix + "query", Shape{c.n_queries, e}, w.query));
  MINICPM_TRY(v.Map(prefix + "kv_proj.weight", Shape{e, c.n_input}, TensorRole::kLinear, w.kv_proj));
  MINICPM_TRY(v.Map(prefix + "attn.in_proj_weight", Shape{3 * e, e}, TensorRole::kLinear, w.in_proj));
  MINICPM_TRY(v.Copy(prefix + "attn.in_proj_bias", Shape{3 * e}, w.in_proj_bias));
  MINICPM_TRY(VisitLinear(v, prefix + "attn.out_proj", e, e, HasBias::kYes, w.out_proj));
  MINICPM_TRY(VisitLayerNorm(v, prefix + "ln_q", e, w.norm_q));
  MINICPM_TRY(VisitLayerNorm(v, prefix + "ln_kv", e, w.norm_kv));
  MINICPM_TRY(VisitLayerNorm(v, prefix + "ln_post", e, w.norm_post));
  return v.Map(prefix + "proj", Shape{e, e}, TensorRole::kPlain, w.proj);
}

void FillPosition2d(int row, int col, int64_t n_embed, float* out) {
  FillSinCos(col, n_embed / 4, out);
  FillSinCos(row, n_embed / 4, out + n_embed / 2);
}

void FillTemporalPosition(int64_t t, int64_t n_embed, float* out) {
  FillSinCos(static_cast<double>(t), n_embed / 2, out);
}

ResamplerRun::ResamplerRun(const ResamplerConfig& config, const ResamplerWeights& weights, int64_t n_keys, Matrix out,
                           int item)
    : config_(config), weights_(weights), out_(out), item_(item) {
  const int64_t n = n_keys * config.n_embed;
  memory_ = AllocateAligned(static_cast<size_t>(2 * n) * sizeof(float));
  auto* f = reinterpret_cast<float*>(memory_.get());
  keys_ = Matrix(f, n_keys, config.n_embed);
  values_ = Matrix(f + n, n_keys, config.n_embed);
}

void ResamplerRun::AddView(ConstMatrix features, int grid_rows, int grid_cols, int temporal_id, int item) {
  MINICPM_CHECK(features.rows == int64_t{grid_rows} * grid_cols && n_added_ + features.rows <= keys_.rows);
  view_ = {features, grid_rows, grid_cols, temporal_id, item, 0};
}

bool ResamplerRun::StepView(Compute& compute) {
  const int64_t e = config_.n_embed;
  const int64_t first = view_.next;
  // A listener gets whole stages, so a view is then one piece; rows are independent and no bit changes.
  const int64_t limit = compute.tap() != nullptr ? view_.features.rows : kRowsPerPiece;
  const int64_t n = std::min(limit, view_.features.rows - first);
  if (n <= 0) return true;
  ArenaScope scope(compute.arena());
  Matrix x = compute.arena().NewMatrix(n, e);
  Linear(compute, view_.features.Rows(first, n), LinearWeight{weights_.kv_proj, nullptr}, x);
  LayerNorm(compute, x, weights_.norm_kv.weight.data(), weights_.norm_kv.bias.data(), config_.eps, x);
  Report(compute, {"resampler.kv", -1, view_.item}, x);
  Linear(compute, x, InProjection(weights_, e, 2), values_.Rows(n_added_, n));

  std::span<float> position(compute.arena().New<float>(e), static_cast<size_t>(e));
  std::span<float> temporal(compute.arena().New<float>(e), static_cast<size_t>(e));
  const bool has_time = config_.temporal && view_.temporal_id >= 0;
  if (has_time) FillTemporalPosition(view_.temporal_id, e, temporal.data());
  for (int64_t i = 0; i < n; ++i) {
    const auto patch = static_cast<int>(first + i);
    FillPosition2d(patch / view_.cols, patch % view_.cols, e, position.data());
    float* row = x.row(i);
    for (int64_t j = 0; j < e; ++j) row[j] += position[j];
    if (has_time) {
      for (int64_t j = 0; j < e; ++j) row[j] += temporal[j];
    }
  }
  Linear(compute, x, InProjection(weights_, e, 1), keys_.Rows(n_added_, n));
  n_added_ += n;
  view_.next += n;
  return view_.next == view_.features.rows;
}

void ResamplerRun::Finish(Compute& compute) {
  MINICPM_CHECK(n_added_ == keys_.rows);
  const int64_t e = config_.n_embed;
  const int64_t n_queries = config_.n_queries;
  ArenaScope scope(compute.arena());
  Matrix q = compute.arena().NewMatrix(n_queries, e);
  Matrix x = compute.arena().NewMatrix(n_queries, e);
  LayerNorm(compute, ConstMatrix(weights_.query.data(), n_queries, e), weights_.norm_q.weight.data(),
            weights_.norm_q.bias.data(), config_.eps, x);
  Linear(compute, x, InProjection(weights_, e, 0), q);
  const float scale = 1.0f / std::sqrt(static_cast<float>(ResamplerConfig::kHeadDim));
  DenseAttention(compute, q, keys_, values_, config_.n_heads(), config_.n_heads(), ResamplerConfig::kHeadDim, scale, x);
  Linear(compute, x, weights_.out_proj.view(), q);
  LayerNorm(compute, q, weights_.norm_post.weight.data(), weights_.norm_post.bias.data(), config_.eps, q);
  MatmulPlain(compute, q, weights_.proj, out_);
  Report(compute, {"resampler.out", -1, item_}, out_);
}

}  // namespace minicpm
