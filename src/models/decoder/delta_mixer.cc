// Implementation of delta_mixer.h.
#include "models/decoder/delta_mixer.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace minicpm {
namespace {

constexpr float kUnitEps = 1e-6f;  // inside the root of the length of q and k

LinearWeight Small(const std::vector<float>& weight, int64_t n, int64_t k) {
  return {{weight.data(), DType::kF32, Shape{n, k}}, nullptr};
}

// x / sqrt(mean(x^2) + eps / n) * s / sqrt(n) = x / sqrt(sum(x^2) + eps) * s
std::vector<float> UnitWeight(int64_t n, double scale) {
  return std::vector<float>(static_cast<size_t>(n), static_cast<float>(scale / std::sqrt(static_cast<double>(n))));
}

// [width, taps] -> [taps, width]
std::vector<float> TurnRound(const std::vector<float>& conv, int64_t taps) {
  std::vector<float> turned(conv.size());
  const auto n = static_cast<int64_t>(conv.size()) / taps;
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t j = 0; j < taps; ++j) turned[static_cast<size_t>(j * n + c)] = conv[static_cast<size_t>(c * taps + j)];
  }
  return turned;
}

}  // namespace

Status VisitDeltaMixer(const DecoderConfig& c, const std::string& p, TensorVisitor& v, DeltaMixerWeights& w) {
  const DeltaConfig& d = c.delta;
  const int64_t values = d.n_heads * d.value_dim;
  MINICPM_TRY(VisitLinear(v, p + "in_proj_qkv", d.width(), c.n_embed, HasBias::kNo, w.in_qkv));
  MINICPM_TRY(VisitLinear(v, p + "in_proj_z", values, c.n_embed, HasBias::kNo, w.in_z));
  MINICPM_TRY(v.Copy(p + "in_proj_a.weight", Shape{d.n_heads, c.n_embed}, w.in_a));
  MINICPM_TRY(v.Copy(p + "in_proj_b.weight", Shape{d.n_heads, c.n_embed}, w.in_b));
  MINICPM_TRY(v.Copy(p + "conv1d.weight", Shape{d.width(), 1, d.n_taps}, w.conv));
  w.conv = TurnRound(w.conv, d.n_taps);
  MINICPM_TRY(v.Copy(p + "A_log", Shape{d.n_heads}, w.rate));
  for (float& rate : w.rate) rate = static_cast<float>(std::exp(static_cast<double>(rate)));
  MINICPM_TRY(v.Copy(p + "dt_bias", Shape{d.n_heads}, w.dt_bias));
  MINICPM_TRY(VisitRmsNorm(v, p + "norm.weight", d.value_dim, w.norm));
  w.unit_k = UnitWeight(d.key_dim, 1.0);
  w.unit_q = UnitWeight(d.key_dim, 1.0 / std::sqrt(static_cast<double>(d.key_dim)));
  return VisitLinear(v, p + "out_proj", c.n_embed, values, HasBias::kNo, w.out);
}

int64_t DeltaStateFloats(const DeltaConfig& d) {
  return d.n_heads * d.key_dim * d.value_dim + (d.n_taps - 1) * d.width();
}

void RunDeltaMixer(Compute& compute, const DecoderConfig& c, const DeltaMixerWeights& w, const float* input_norm,
                   std::span<const DeltaMixerRun> runs, Matrix hidden) {
  const DeltaConfig& d = c.delta;
  const int64_t t = hidden.rows;
  const int64_t keys = d.n_heads * d.key_dim;
  ArenaScope scope(compute.arena());
  Matrix inputs = compute.arena().NewMatrix(t, d.width());
  Matrix z = compute.arena().NewMatrix(t, d.n_heads * d.value_dim);
  Matrix decay = compute.arena().NewMatrix(t, d.n_heads);
  Matrix beta = compute.arena().NewMatrix(t, d.n_heads);
  Matrix normed = compute.arena().NewMatrix(t, c.n_embed);
  RmsNorm(compute, hidden, input_norm, c.eps, normed);
  const LinearJob projections[] = {{w.in_qkv.view(), inputs}, {w.in_z.view(), z}};
  NormLinears(compute, normed, {}, projections);
  Linear(compute, normed, Small(w.in_a, d.n_heads, c.n_embed), decay);
  Linear(compute, normed, Small(w.in_b, d.n_heads, c.n_embed), beta);
  DeltaGates(compute, w.rate.data(), w.dt_bias.data(), decay, beta);

  Matrix mixed = compute.arena().NewMatrix(t, d.width());
  Matrix out = compute.arena().NewMatrix(t, z.cols);
  const int64_t state_floats = d.n_heads * d.key_dim * d.value_dim;
  for (const DeltaMixerRun& run : runs) {
    CausalConvSilu(compute, inputs.Rows(run.row, run.n), w.conv.data(), d.n_taps, run.state + state_floats,
                   mixed.Rows(run.row, run.n));
  }
  const float eps = kUnitEps / static_cast<float>(d.key_dim);
  RmsNormHeads(compute, mixed.Cols(0, keys), w.unit_q.data(), d.key_dim, eps);
  RmsNormHeads(compute, mixed.Cols(keys, keys), w.unit_k.data(), d.key_dim, eps);
  for (const DeltaMixerRun& run : runs) {
    DeltaArgs args;
    args.mixed = mixed.Rows(run.row, run.n);
    args.decay = decay.Rows(run.row, run.n);
    args.beta = beta.Rows(run.row, run.n);
    args.out = out.Rows(run.row, run.n);
    args.state = run.state;
    args.n_heads = d.n_heads;
    args.key_dim = d.key_dim;
    args.value_dim = d.value_dim;
    GatedDelta(compute, args);
  }
  RmsNormHeads(compute, out, w.norm.weight.data(), d.value_dim, c.eps);
  SiluMul(compute, z, out);  // silu(z) * out
  LinearAdd(compute, z, w.out.view(), hidden);
}

}  // namespace minicpm
