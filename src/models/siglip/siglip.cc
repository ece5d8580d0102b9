// Implementation of siglip.h. Pre-norm blocks: x += out(attn(norm1(x))); x += fc2(gelu_tanh(fc1(norm2(x)))).
#include "models/siglip/siglip.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace minicpm {
namespace {

// Rows per piece: about 7 GFLOP of a 1152-wide layer, under 50 ms at 150 GFLOP/s. Rows are independent, so cutting
// changes no bit.
constexpr int64_t kRowsPerPiece = 256;
constexpr int64_t kWindowsPerPiece = 32;  // the merger's network is four times as wide in every direction

// A layer with quantised projections has 8-bit attention, too: the products' inputs carry such noise already.
bool QuantisedAttention(const SiglipLayer& layer) { return IsPacked(layer.q.weight.dtype); }

}  // namespace

Status VisitSiglip(const VisionConfig& c, const std::string& prefix, TensorVisitor& v, SiglipWeights& w) {
  const std::string embeddings = prefix + "embeddings.";
  MINICPM_TRY(v.Map(embeddings + "patch_embedding.weight", Shape{c.n_embed, c.n_channels, c.patch_px, c.patch_px},
                    TensorRole::kConv, w.patch_embedding));
  MINICPM_TRY(v.Copy(embeddings + "patch_embedding.bias", Shape{c.n_embed}, w.patch_bias));
  MINICPM_TRY(v.Map(embeddings + "position_embedding.weight", Shape{c.n_side() * c.n_side(), c.n_embed},
                    TensorRole::kEmbedding, w.position_embedding));
  w.layers.resize(static_cast<size_t>(c.n_kept_layers()));
  for (size_t i = 0; i < w.layers.size(); ++i) {
    SiglipLayer& layer = w.layers[i];
    const std::string p = prefix + "encoder.layers." + std::to_string(i) + ".";
    MINICPM_TRY(VisitLayerNorm(v, p + "layer_norm1", c.n_embed, layer.norm1));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.q_proj", c.n_embed, c.n_embed, HasBias::kYes, layer.q));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.k_proj", c.n_embed, c.n_embed, HasBias::kYes, layer.k));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.v_proj", c.n_embed, c.n_embed, HasBias::kYes, layer.v));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.out_proj", c.n_embed, c.n_embed, HasBias::kYes, layer.out));
    MINICPM_TRY(VisitLayerNorm(v, p + "layer_norm2", c.n_embed, layer.norm2));
    MINICPM_TRY(VisitLinear(v, p + "mlp.fc1", c.n_ffn, c.n_embed, HasBias::kYes, layer.fc1));
    MINICPM_TRY(VisitLinear(v, p + "mlp.fc2", c.n_embed, c.n_ffn, HasBias::kYes, layer.fc2));
  }
  MINICPM_TRY(VisitLayerNorm(v, prefix + "post_layernorm", c.n_embed, w.post_norm));
  if (c.merge_after_layer < 0) return {};
  return VisitWindowMerger(c, prefix + "vit_merger.", v, w.merger);
}

SiglipRun::SiglipRun(const VisionConfig& config, const SiglipWeights& weights, ConstMatrix patches,
                     const int32_t* position_ids, int item)
    : config_(config), weights_(weights), patches_(patches), position_ids_(position_ids), item_(item) {
  const int64_t n = patches.rows * config.n_embed;
  const bool packs = std::any_of(weights.layers.begin(), weights.layers.end(), QuantisedAttention);
  const int64_t float_bytes = (4 * n * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  const int64_t packed_bytes = packs ? PackedKeysValuesBytes(patches.rows, config.n_heads, config.head_dim()) : 0;
  memory_ = AllocateAligned(static_cast<size_t>(float_bytes + packed_bytes));
  packed_.memory = memory_.get() + float_bytes;
  LayOut(patches.rows);
}

// The same memory for fewer rows, once windows are merged.
void SiglipRun::LayOut(int64_t rows) {
  packed_ = {packed_.memory, rows, config_.n_heads, config_.head_dim()};
  auto* f = reinterpret_cast<float*>(memory_.get());
  const int64_t n = rows * config_.n_embed;
  hidden_ = Matrix(f, rows, config_.n_embed);
  q_ = Matrix(f + n, rows, config_.n_embed);
  k_ = Matrix(f + 2 * n, rows, config_.n_embed);
  v_ = Matrix(f + 3 * n, rows, config_.n_embed);
}

void SiglipRun::MergeWindowsOf(int64_t grid_cols) {
  MINICPM_CHECK(config_.merge_after_layer >= 0 && phase_ == Phase::kEmbed);
  MINICPM_CHECK(grid_cols > 0 && grid_cols % 2 == 0 && hidden_.rows % (2 * grid_cols) == 0);
  merge_cols_ = grid_cols;
}

void SiglipRun::Embed(Compute& compute) {
  // A convolution whose kernel is its stride is a matmul over flattened patches.
  LinearWeight patch;
  patch.weight = weights_.patch_embedding;
  patch.weight.shape = Shape{config_.n_embed, config_.n_patch_values()};
  patch.bias = weights_.patch_bias.data();
  Linear(compute, patches_, patch, hidden_);
  ArenaScope scope(compute.arena());
  Matrix positions = compute.arena().NewMatrix(hidden_.rows, hidden_.cols);
  GatherRows(compute, weights_.position_embedding, {position_ids_, static_cast<size_t>(hidden_.rows)}, positions);
  Add(compute, positions, hidden_);
  Report(compute, {"vit.embed", -1, item_}, hidden_);
}

void SiglipRun::ProjectQkv(Compute& compute, const SiglipLayer& layer, int64_t row) {
  const int64_t n = std::min(kRowsPerPiece, hidden_.rows - row);
  const LinearJob projections[] = {
      {layer.q.view(), q_.Rows(row, n)}, {layer.k.view(), k_.Rows(row, n)}, {layer.v.view(), v_.Rows(row, n)}};
  NormLinears(compute, hidden_.Rows(row, n), {layer.norm1.weight.data(), layer.norm1.bias.data(), config_.eps},
              projections);
}

void SiglipRun::AttendAndFeedForward(Compute& compute, const SiglipLayer& layer, int64_t row) {
  const int64_t n = std::min(kRowsPerPiece, hidden_.rows - row);
  const Matrix x = hidden_.Rows(row, n);
  ArenaScope scope(compute.arena());
  Matrix attended = compute.arena().NewMatrix(n, config_.n_embed);
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim()));
  if (QuantisedAttention(layer)) {
    if (row == 0) PackKeysValues(compute, k_, v_, packed_);
    PackedAttention(compute, q_.Rows(row, n), packed_, scale, attended);
  } else {
    DenseAttention(compute, q_.Rows(row, n), k_, v_, config_.n_heads, config_.n_heads, config_.head_dim(), scale,
                   attended);
  }
  LinearAdd(compute, attended, layer.out.view(), x);
  Matrix inner = compute.arena().NewMatrix(n, config_.n_ffn);
  const LinearJob fc1 = {layer.fc1.view(), inner, Activation::kGeluTanh};
  NormLinears(compute, x, {layer.norm2.weight.data(), layer.norm2.bias.data(), config_.eps}, {&fc1, 1});
  LinearAdd(compute, inner, layer.fc2.view(), x);
}

void SiglipRun::FinishLayer(Compute& compute) {
  Report(compute, {"vit.layer", static_cast<int>(layer_), item_}, hidden_);
  row_ = 0;
  const bool merges = merge_cols_ > 0 && static_cast<int64_t>(layer_) == config_.merge_after_layer;
  ++layer_;
  phase_ = layer_ < weights_.layers.size() ? Phase::kQkv : Phase::kPostNorm;
  if (merges) phase_ = Phase::kMerge;
}

// Merged rows gather in q_, which the layer no longer needs, and become the new hidden rows at the end.
void SiglipRun::MergePiece(Compute& compute) {
  const int64_t windows = hidden_.rows / 4;
  const int64_t n = std::min(kWindowsPerPiece, windows - row_);
  MergeWindows(compute, config_, weights_.merger, hidden_, merge_cols_, row_, q_.Rows(row_, n));
  row_ += n;
  if (row_ < windows) return;
  row_ = 0;
  std::memcpy(hidden_.data, q_.data, static_cast<size_t>(windows * config_.n_embed) * sizeof(float));
  LayOut(windows);
  Report(compute, {"vit.window_merger", -1, item_}, hidden_);
  phase_ = layer_ < weights_.layers.size() ? Phase::kQkv : Phase::kPostNorm;
}

bool SiglipRun::Step(Compute& compute) {
  switch (phase_) {
    case Phase::kEmbed:
      Embed(compute);
      phase_ = weights_.layers.empty() ? Phase::kPostNorm : Phase::kQkv;
      return false;
    case Phase::kQkv:
      ProjectQkv(compute, weights_.layers[layer_], row_);
      row_ += kRowsPerPiece;
      if (row_ >= hidden_.rows) {
        row_ = 0;
        phase_ = Phase::kRest;
      }
      return false;
    case Phase::kRest:
      AttendAndFeedForward(compute, weights_.layers[layer_], row_);
      row_ += kRowsPerPiece;
      if (row_ >= hidden_.rows) FinishLayer(compute);
      return false;
    case Phase::kMerge:
      MergePiece(compute);
      return false;
    case Phase::kPostNorm:
      LayerNorm(compute, hidden_, weights_.post_norm.weight.data(), weights_.post_norm.bias.data(), config_.eps,
                hidden_);
      Report(compute, {"vit.post_norm", -1, item_}, hidden_);
      phase_ = Phase::kDone;
      return true;
    case Phase::kDone:
      return true;
  }
  return true;
}

}  // namespace minicpm
