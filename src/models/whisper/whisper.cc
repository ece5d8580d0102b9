// Implementation of whisper.h. Pre-norm blocks: x += out(attn(norm1(x))); x += fc2(gelu(fc1(norm2(x)))); exact GELU.
#include "models/whisper/whisper.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace minicpm {
namespace {

// Rows per piece of work: three blocks of a second, about 4 GFLOP of a 1024-wide layer. Rows are independent, so
// cutting changes no bit.
constexpr int64_t kRowsPerPiece = 150;
constexpr int64_t kTaps = 3;

// rows[i] = the three frames of x that output first + i sees, as a kernel [inputs, 3] reads them; zeros outside x.
void UnfoldFrames(ConstMatrix x, int64_t first, int64_t stride, Matrix rows) {
  for (int64_t i = 0; i < rows.rows; ++i) {
    float* const out = rows.row(i);
    for (int64_t t = 0; t < kTaps; ++t) {
      const int64_t frame = (first + i) * stride + t - 1;
      if (frame < 0 || frame >= x.rows) {
        for (int64_t c = 0; c < x.cols; ++c) out[c * kTaps + t] = 0.0f;
      } else {
        const float* const in = x.row(frame);
        for (int64_t c = 0; c < x.cols; ++c) out[c * kTaps + t] = in[c];
      }
    }
  }
}

// y[i] = gelu(convolution of x at output frame first + i).
void ConvolveRows(Compute& compute, ConstMatrix x, const WhisperConv& conv, int64_t first, int64_t stride, Matrix y) {
  ArenaScope scope(compute.arena());
  Matrix rows = compute.arena().NewMatrix(y.rows, kTaps * x.cols);
  UnfoldFrames(x, first, stride, rows);
  LinearWeight w;
  w.weight = conv.kernel;
  w.weight.shape = Shape{conv.kernel.shape[0], rows.cols};
  w.bias = conv.bias.data();
  Linear(compute, rows, w, y, Activation::kGeluErf);
}

Status VisitConv(TensorVisitor& v, const std::string& prefix, int64_t n, int64_t inputs, WhisperConv& conv) {
  MINICPM_TRY(v.Map(prefix + ".weight", Shape{n, inputs, kTaps}, TensorRole::kConv, conv.kernel));
  return v.Copy(prefix + ".bias", Shape{n}, conv.bias);
}

}  // namespace

Status VisitWhisper(const AudioConfig& c, const std::string& prefix, TensorVisitor& v, WhisperWeights& w) {
  const int64_t a = c.n_embed;
  MINICPM_TRY(VisitConv(v, prefix + "conv1", a, c.n_mels, w.conv1));
  MINICPM_TRY(VisitConv(v, prefix + "conv2", a, a, w.conv2));
  MINICPM_TRY(v.Map(prefix + "embed_positions.weight", Shape{c.n_positions, a}, TensorRole::kEmbedding, w.positions));
  w.layers.resize(static_cast<size_t>(c.n_layers));
  for (size_t i = 0; i < w.layers.size(); ++i) {
    WhisperLayer& layer = w.layers[i];
    const std::string p = prefix + "layers." + std::to_string(i) + ".";
    MINICPM_TRY(VisitLayerNorm(v, p + "self_attn_layer_norm", a, layer.norm1));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.q_proj", a, a, HasBias::kYes, layer.q));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.k_proj", a, a, HasBias::kNo, layer.k));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.v_proj", a, a, HasBias::kYes, layer.v));
    MINICPM_TRY(VisitLinear(v, p + "self_attn.out_proj", a, a, HasBias::kYes, layer.out));
    MINICPM_TRY(VisitLayerNorm(v, p + "final_layer_norm", a, layer.norm2));
    MINICPM_TRY(VisitLinear(v, p + "fc1", c.n_ffn, a, HasBias::kYes, layer.fc1));
    MINICPM_TRY(VisitLinear(v, p + "fc2", a, c.n_ffn, HasBias::kYes, layer.fc2));
  }
  return VisitLayerNorm(v, prefix + "layer_norm", a, w.norm);
}

WhisperCache::WhisperCache(const AudioConfig& config)
    : n_layers_(config.n_layers), n_embed_(config.n_embed), views_(static_cast<size_t>(config.n_layers)) {}

void WhisperCache::Reserve(int64_t n) {
  const int64_t n_floats = kKvBlockTokens * n_embed_;  // of one layer's keys
  while (static_cast<int64_t>(memory_.size()) * kKvBlockTokens < n) {
    memory_.push_back(AllocateAligned(static_cast<size_t>(2 * n_layers_ * n_floats) * sizeof(float)));
    auto* f = reinterpret_cast<float*>(memory_.back().get());
    for (auto& layer : views_) {
      layer.push_back({f, f + n_floats});
      f += 2 * n_floats;
    }
  }
}

void WhisperCache::Store(int64_t layer, int64_t first, ConstMatrix k, ConstMatrix v) {
  const size_t row_bytes = static_cast<size_t>(n_embed_) * sizeof(float);
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t frame = first + i;
    auto* const block = reinterpret_cast<float*>(memory_[static_cast<size_t>(frame / kKvBlockTokens)].get()) +
                        2 * layer * kKvBlockTokens * n_embed_;
    float* const key = block + frame % kKvBlockTokens * n_embed_;
    std::memcpy(key, k.row(i), row_bytes);
    std::memcpy(key + kKvBlockTokens * n_embed_, v.row(i), row_bytes);
  }
}

WhisperRun::WhisperRun(const AudioConfig& config, const WhisperWeights& weights, const Input& input)
    : config_(config), weights_(weights), input_(input) {
  const int64_t a = config.n_embed;
  const int64_t n_conv = AudioConfig::n_frames(input.mel.rows);
  const int64_t n = n_conv - input.cut_front - input.cut_back;
  MINICPM_CHECK(n >= 1 && n_conv <= config.n_positions);
  if (input.cache != nullptr) {
    if (input.cache->length() + n_conv >= config.n_positions) input.cache->Clear();
    first_position_ = input.cache->length();
    input.cache->Reserve(first_position_ + n);
  }
  const int64_t n_shared = std::max(input.mel.rows, 3 * n);
  memory_ = AllocateAligned(static_cast<size_t>((n_conv + n_shared) * a) * sizeof(float));
  auto* const f = reinterpret_cast<float*>(memory_.get());
  conv2_ = Matrix(f, n_conv, a);
  hidden_ = conv2_.Rows(input.cut_front, n);
  conv1_ = Matrix(f + n_conv * a, input.mel.rows, a);
  q_ = Matrix(f + n_conv * a, n, a);
  k_ = Matrix(f + (n_conv + n) * a, n, a);
  v_ = Matrix(f + (n_conv + 2 * n) * a, n, a);
}

int64_t WhisperRun::NextRows(int64_t total) const { return std::min(kRowsPerPiece, total - row_); }

// Past n more rows; true, and back at row 0, when all are done.
bool WhisperRun::Advance(int64_t n, int64_t total) {
  row_ += n;
  if (row_ < total) return false;
  row_ = 0;
  return true;
}

void WhisperRun::AddPositions(Compute& compute) {
  Report(compute, {"aud.conv", -1, input_.item}, hidden_);
  ArenaScope scope(compute.arena());
  const int64_t n = hidden_.rows;
  std::span<int32_t> ids(compute.arena().New<int32_t>(n), static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) ids[static_cast<size_t>(i)] = static_cast<int32_t>(first_position_ + i);
  Matrix positions = compute.arena().NewMatrix(n, hidden_.cols);
  GatherRows(compute, weights_.positions, ids, positions);
  Add(compute, positions, hidden_);
}

void WhisperRun::ProjectQkv(Compute& compute, const WhisperLayer& layer) {
  const int64_t n = NextRows(hidden_.rows);
  const LinearJob projections[] = {
      {layer.q.view(), q_.Rows(row_, n)}, {layer.k.view(), k_.Rows(row_, n)}, {layer.v.view(), v_.Rows(row_, n)}};
  NormLinears(compute, hidden_.Rows(row_, n), {layer.norm1.weight.data(), layer.norm1.bias.data(), config_.eps},
              projections);
  if (input_.cache != nullptr) {
    input_.cache->Store(static_cast<int64_t>(layer_), first_position_ + row_, k_.Rows(row_, n), v_.Rows(row_, n));
  }
}

// Queries [row, row + attended.rows): block by block, because those of one block see the same keys.
void WhisperRun::Attend(Compute& compute, int64_t row, Matrix attended) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim()));
  if (input_.cache != nullptr) {
    AttentionArgs args;
    args.q = q_.Rows(row, attended.rows);
    args.out = attended;
    args.n_heads = args.n_kv_heads = config_.n_heads;
    args.head_dim = args.head_stride = config_.head_dim();
    args.scale = scale;
    args.token_stride = config_.n_embed;
    args.blocks = input_.cache->blocks(static_cast<int64_t>(layer_));
    args.n_keys = first_position_ + hidden_.rows;
    Attention(compute, args);
    return;
  }
  const int64_t block = config_.block_frames() > 0 ? config_.block_frames() : hidden_.rows;
  const int64_t end = row + attended.rows;
  for (int64_t at = row; at < end;) {
    const int64_t block_end = std::min((at / block + 1) * block, hidden_.rows);
    const int64_t n = std::min(block_end, end) - at;
    DenseAttention(compute, q_.Rows(at, n), k_.Rows(0, block_end), v_.Rows(0, block_end), config_.n_heads,
                   config_.n_heads, config_.head_dim(), scale, attended.Rows(at - row, n));
    at += n;
  }
}

void WhisperRun::AttendAndFeedForward(Compute& compute, const WhisperLayer& layer) {
  const int64_t n = NextRows(hidden_.rows);
  const Matrix x = hidden_.Rows(row_, n);
  ArenaScope scope(compute.arena());
  Matrix attended = compute.arena().NewMatrix(n, config_.n_embed);
  Attend(compute, row_, attended);
  LinearAdd(compute, attended, layer.out.view(), x);
  Matrix inner = compute.arena().NewMatrix(n, config_.n_ffn);
  const LinearJob fc1 = {layer.fc1.view(), inner, Activation::kGeluErf};
  NormLinears(compute, x, {layer.norm2.weight.data(), layer.norm2.bias.data(), config_.eps}, {&fc1, 1});
  LinearAdd(compute, inner, layer.fc2.view(), x);
}

bool WhisperRun::Step(Compute& compute) {
  switch (phase_) {
    case Phase::kConv1: {
      const int64_t n = NextRows(conv1_.rows);
      ConvolveRows(compute, input_.mel, weights_.conv1, row_, 1, conv1_.Rows(row_, n));
      if (Advance(n, conv1_.rows)) phase_ = Phase::kConv2;
      return false;
    }
    case Phase::kConv2: {
      const int64_t n = NextRows(conv2_.rows);
      ConvolveRows(compute, conv1_, weights_.conv2, row_, 2, conv2_.Rows(row_, n));
      if (Advance(n, conv2_.rows)) phase_ = Phase::kPositions;
      return false;
    }
    case Phase::kPositions:
      AddPositions(compute);
      phase_ = weights_.layers.empty() ? Phase::kNorm : Phase::kQkv;
      return false;
    case Phase::kQkv: {
      const int64_t n = NextRows(hidden_.rows);
      ProjectQkv(compute, weights_.layers[layer_]);
      if (Advance(n, hidden_.rows)) phase_ = Phase::kRest;
      return false;
    }
    case Phase::kRest: {
      const int64_t n = NextRows(hidden_.rows);
      AttendAndFeedForward(compute, weights_.layers[layer_]);
      if (Advance(n, hidden_.rows)) {
        Report(compute, {"aud.layer", static_cast<int>(layer_), input_.item}, hidden_);
        phase_ = ++layer_ < weights_.layers.size() ? Phase::kQkv : Phase::kNorm;
      }
      return false;
    }
    case Phase::kNorm:
      LayerNorm(compute, hidden_, weights_.norm.weight.data(), weights_.norm.bias.data(), config_.eps, hidden_);
      Report(compute, {"aud.norm", -1, input_.item}, hidden_);
      if (input_.cache != nullptr) input_.cache->length_ = first_position_ + hidden_.rows;
      phase_ = Phase::kDone;
      return true;
    case Phase::kDone:
      return true;
  }
  return true;
}

}  // namespace minicpm
