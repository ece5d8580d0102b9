// Implementation of decoder.h. x += o(attn(rope(norm(q, k)), v)), or the gated-delta mixer; x += down(silu(gate(x')) *
// up(x')).
#include "models/decoder/decoder.h"

#include <cmath>

#include "ops/attention.h"
#include "ops/delta.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace minicpm {
namespace {

void AttendRuns(Compute& compute, const DecoderConfig& c, const SequencePool& pool, std::span<const DecoderRun> runs,
                int64_t layer, ConstMatrix q, Matrix out) {
  for (const DecoderRun& run : runs) {
    ArenaScope scope(compute.arena());
    const int64_t n_keys = run.first_position + run.n;
    const int64_t n_blocks = (n_keys + kKvBlockTokens - 1) / kKvBlockTokens;
    auto* blocks = compute.arena().New<KvBlock>(n_blocks);
    pool.Blocks(run.seq, layer, n_keys, blocks);
    AttentionArgs args;
    args.q = q.Rows(run.row, run.n);
    args.out = out.Rows(run.row, run.n);
    args.n_heads = c.n_heads;
    args.n_kv_heads = c.n_kv_heads;
    args.head_dim = c.head_dim;
    args.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    args.kv_dtype = pool.layout().kv_dtype;
    args.token_stride = pool.token_stride();
    args.head_stride = pool.head_stride();
    args.blocks = {blocks, static_cast<size_t>(n_blocks)};
    args.n_keys = n_keys;
    args.causal = true;
    args.first_position = run.first_position;
    Attention(compute, args);
  }
}

void AttentionHalf(Compute& compute, const DecoderConfig& c, const DecoderLayer& w, int64_t layer, SequencePool& pool,
                   std::span<const DecoderRun> runs, const RopeTable& rope, Matrix hidden) {
  ArenaScope scope(compute.arena());
  const int64_t t = hidden.rows;
  Matrix q = compute.arena().NewMatrix(t, c.n_heads * c.head_dim);
  Matrix gate;
  Matrix both;  // per head its query, then its gate
  if (c.output_gate) {
    gate = compute.arena().NewMatrix(t, q.cols);
    both = compute.arena().NewMatrix(t, 2 * q.cols);
  }
  Matrix k = compute.arena().NewMatrix(t, c.n_kv_heads * c.head_dim);
  Matrix v = compute.arena().NewMatrix(t, c.n_kv_heads * c.head_dim);
  const LinearJob projections[] = {{w.q.view(), c.output_gate ? both : q}, {w.k.view(), k}, {w.v.view(), v}};
  NormLinears(compute, hidden, {w.input_norm.weight.data(), nullptr, c.eps}, projections);
  if (c.output_gate) SplitPairs(compute, both, c.head_dim, q, gate);
  if (c.qk_norm) {
    RmsNormHeads(compute, q, w.q_norm.weight.data(), c.head_dim, c.eps);
    RmsNormHeads(compute, k, w.k_norm.weight.data(), c.head_dim, c.eps);
  }
  ApplyRope(compute, q, c.head_dim, rope);
  ApplyRope(compute, k, c.head_dim, rope);
  // All runs are written before any is read: a run may continue a sequence that an earlier run of this call began.
  for (const DecoderRun& run : runs) {
    pool.Write(run.seq, layer, run.first_position, k.Rows(run.row, run.n), v.Rows(run.row, run.n));
  }
  Matrix attended = compute.arena().NewMatrix(t, c.n_heads * c.head_dim);
  AttendRuns(compute, c, pool, runs, layer, q, attended);
  if (c.output_gate) SigmoidMul(compute, gate, attended);
  LinearAdd(compute, attended, w.o.view(), hidden);
}

void DeltaHalf(Compute& compute, const DecoderConfig& c, const DecoderLayer& w, int64_t layer, SequencePool& pool,
               std::span<const DecoderRun> runs, Matrix hidden) {
  ArenaScope scope(compute.arena());
  const auto n_runs = static_cast<int64_t>(runs.size());
  auto* mixer_runs = compute.arena().New<DeltaMixerRun>(n_runs);
  for (int64_t i = 0; i < n_runs; ++i) {
    const DecoderRun& run = runs[static_cast<size_t>(i)];
    mixer_runs[i] = {run.row, run.n, pool.Recurrent(run.seq, layer).data()};
  }
  RunDeltaMixer(compute, c, w.delta, w.input_norm.weight.data(), {mixer_runs, static_cast<size_t>(n_runs)}, hidden);
}

void FeedForwardHalf(Compute& compute, const DecoderConfig& c, const DecoderLayer& w, Matrix hidden) {
  ArenaScope scope(compute.arena());
  Matrix inner = compute.arena().NewMatrix(hidden.rows, c.n_ffn);
  NormSwiGlu(compute, hidden, {w.post_attention_norm.weight.data(), nullptr, c.eps}, w.gate.view(), w.up.view(), inner);
  LinearAdd(compute, inner, w.down.view(), hidden);
}

// A norm's weight, one added where the file holds the difference to one.
Status VisitNorm(const DecoderConfig& c, TensorVisitor& v, const std::string& name, int64_t width, NormField& field) {
  MINICPM_TRY(VisitRmsNorm(v, name, width, field));
  if (c.norms_from_one) {
    for (float& weight : field.weight) weight += 1.0f;
  }
  return {};
}

Status VisitAttention(const DecoderConfig& c, const std::string& p, TensorVisitor& v, DecoderLayer& layer) {
  const HasBias bias = c.qkv_bias ? HasBias::kYes : HasBias::kNo;
  const int64_t query_rows = (c.output_gate ? 2 : 1) * c.n_heads * c.head_dim;
  MINICPM_TRY(VisitLinear(v, p + "q_proj", query_rows, c.n_embed, bias, layer.q));
  MINICPM_TRY(VisitLinear(v, p + "k_proj", c.n_kv_heads * c.head_dim, c.n_embed, bias, layer.k));
  MINICPM_TRY(VisitLinear(v, p + "v_proj", c.n_kv_heads * c.head_dim, c.n_embed, bias, layer.v));
  MINICPM_TRY(VisitLinear(v, p + "o_proj", c.n_embed, c.n_heads * c.head_dim, HasBias::kNo, layer.o));
  if (!c.qk_norm) return {};
  MINICPM_TRY(VisitNorm(c, v, p + "q_norm.weight", c.head_dim, layer.q_norm));
  return VisitNorm(c, v, p + "k_norm.weight", c.head_dim, layer.k_norm);
}

}  // namespace

Status VisitDecoder(const DecoderConfig& c, const std::string& prefix, TensorVisitor& v, DecoderWeights& w) {
  const std::string base = prefix + (c.is_hybrid() ? "" : "model.");
  MINICPM_TRY(v.Map(base + "embed_tokens.weight", Shape{c.n_vocab, c.n_embed}, TensorRole::kEmbedding, w.embed_tokens));
  w.layers.resize(static_cast<size_t>(c.n_layers));
  for (size_t i = 0; i < w.layers.size(); ++i) {
    DecoderLayer& layer = w.layers[i];
    const std::string p = base + "layers." + std::to_string(i) + ".";
    MINICPM_TRY(VisitNorm(c, v, p + "input_layernorm.weight", c.n_embed, layer.input_norm));
    if (c.is_delta(i)) {
      MINICPM_TRY(VisitDeltaMixer(c, p + "linear_attn.", v, layer.delta));
    } else {
      MINICPM_TRY(VisitAttention(c, p + "self_attn.", v, layer));
    }
    MINICPM_TRY(VisitNorm(c, v, p + "post_attention_layernorm.weight", c.n_embed, layer.post_attention_norm));
    MINICPM_TRY(VisitLinear(v, p + "mlp.gate_proj", c.n_ffn, c.n_embed, HasBias::kNo, layer.gate));
    MINICPM_TRY(VisitLinear(v, p + "mlp.up_proj", c.n_ffn, c.n_embed, HasBias::kNo, layer.up));
    MINICPM_TRY(VisitLinear(v, p + "mlp.down_proj", c.n_embed, c.n_ffn, HasBias::kNo, layer.down));
  }
  MINICPM_TRY(VisitNorm(c, v, base + "norm.weight", c.n_embed, w.norm));
  if (c.tied_head) {
    w.lm_head = w.embed_tokens;
    return {};
  }
  return v.Map((c.is_hybrid() ? "" : prefix) + "lm_head.weight", Shape{c.n_vocab, c.n_embed}, TensorRole::kHead,
               w.lm_head);
}

SequenceLayout DecoderSequenceLayout(const DecoderConfig& c, DType kv_dtype) {
  SequenceLayout layout;
  for (size_t i = 0; i < static_cast<size_t>(c.n_layers); ++i) {
    if (c.is_delta(i)) {
      layout.recurrent_floats.push_back(DeltaStateFloats(c.delta));
    } else {
      ++layout.n_kv_layers;
    }
  }
  layout.n_kv_heads = c.n_kv_heads;
  layout.head_dim = c.head_dim;
  layout.kv_dtype = kv_dtype;
  return layout;
}

void RunDecoderLayers(Compute& compute, const DecoderConfig& c, const DecoderWeights& weights, SequencePool& pool,
                      std::span<const DecoderRun> runs, Matrix hidden) {
  ArenaScope scope(compute.arena());
  const int64_t t = hidden.rows;
  auto* positions = compute.arena().New<int32_t>(t);
  for (const DecoderRun& run : runs) {
    for (int64_t i = 0; i < run.n; ++i) positions[run.row + i] = static_cast<int32_t>(run.first_position + i);
  }
  RopeTable rope{compute.arena().NewMatrix(t, c.rotary() / 2), compute.arena().NewMatrix(t, c.rotary() / 2)};
  FillRopeTable({positions, static_cast<size_t>(t)}, c.rope_theta, c.rotary(), rope);
  int64_t n_attention = 0;  // layers of each kind have their own numbers in the pool
  int64_t n_delta = 0;
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    if (c.is_delta(i)) {
      DeltaHalf(compute, c, weights.layers[i], n_delta++, pool, runs, hidden);
    } else {
      AttentionHalf(compute, c, weights.layers[i], n_attention++, pool, runs, rope, hidden);
    }
    FeedForwardHalf(compute, c, weights.layers[i], hidden);
    Report(compute, {"llm.layer", static_cast<int>(i), -1}, hidden);
  }
}

void FinalNorm(Compute& compute, const DecoderConfig& c, const DecoderWeights& weights, ConstMatrix hidden,
               Matrix out) {
  RmsNorm(compute, hidden, weights.norm.weight.data(), c.eps, out);
}

void Logits(Compute& compute, const DecoderWeights& weights, ConstMatrix normed, Matrix logits) {
  Linear(compute, normed, LinearWeight{weights.lm_head, nullptr}, logits);
}

}  // namespace minicpm
