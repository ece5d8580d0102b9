// Whole-tensor verbs of the gated-delta mixer: convolution with state, gates, the delta rule over heads; and the gate
// of gated attention. Formulas: kernels/delta/delta.h. Not for projections and norms: linear.h, norm.h.
#pragma once

#include <cstdint>
#include <span>

#include "ops/compute.h"

namespace minicpm {

// out[t] = silu(causal depthwise convolution of x). x, out [T, C], not overlapping; weight [taps, C], newest tap last.
// state [taps - 1, C]: the inputs before x, oldest first; replaced by the last ones.
void CausalConvSilu(Compute& compute, ConstMatrix x, const float* weight, int64_t taps, float* state, Matrix out);

// In place: a [T, H] becomes exp(-rate * softplus(a + bias)), the decay; b [T, H] becomes sigmoid(b). rate, bias [H].
void DeltaGates(Compute& compute, const float* rate, const float* bias, Matrix a, Matrix b);

// How the tokens of a call are walked through.
enum class DeltaForm {
  kRecurrent,  // one by one: a token's result does not depend on how tokens are cut into calls, bit for bit
  kChunked,    // 64 at a time from the first of the call; equal but for rounding
};

// The delta rule for H heads over the T tokens of one sequence.
struct DeltaArgs {
  ConstMatrix mixed;       // [T, H * (2 dk + dv)]: all heads' q, then all k, then all v; q scaled, q and k normalised
  ConstMatrix decay;       // [T, H]
  ConstMatrix beta;        // [T, H]
  Matrix out;              // [T, H * dv]
  float* state = nullptr;  // [H, dk, dv]
  int64_t n_heads = 0;
  int64_t key_dim = 0;    // dk
  int64_t value_dim = 0;  // dv
  DeltaForm form = DeltaForm::kRecurrent;
};
void GatedDelta(Compute& compute, const DeltaArgs& args);

// y *= sigmoid(gate), both [M, E].
void SigmoidMul(Compute& compute, ConstMatrix gate, Matrix y);

// x [M, n * 2 * width]: pairs of runs; the first of each goes to `first`, the second to `second`, both [M, n * width].
void SplitPairs(Compute& compute, ConstMatrix x, int64_t width, Matrix first, Matrix second);

}  // namespace minicpm
