// The gated-delta mixer of hybrid decoders (V 4.6): a layer's other half than attention, with a recurrent state in
// place of keys and values. Attribute names as in transformers' Qwen3_5GatedDeltaNet. Not for the layer around it:
// decoder.h.
#pragma once

#include <string>
#include <vector>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/delta.h"

namespace minicpm {

struct DeltaMixerWeights {
  LinearField in_qkv;                 // [H (2 dk + dv), E]: q of all heads, k, v
  LinearField in_z;                   // [H dv, E]
  std::vector<float> in_a, in_b;      // [H, E]: small, and the decay needs them exact
  std::vector<float> conv;            // [taps, H (2 dk + dv)], turned round while loading
  std::vector<float> rate;            // [H], exp(A_log)
  std::vector<float> dt_bias;         // [H]
  NormField norm;                     // [dv]
  LinearField out;                    // [E, H dv]
  std::vector<float> unit_q, unit_k;  // [dk]: weights that make an RMS norm the division by the length
};

Status VisitDeltaMixer(const DecoderConfig& config, const std::string& prefix, TensorVisitor& v, DeltaMixerWeights& w);

// Floats of one layer's state: the delta rule's S [H, dk, dv], then the convolution's last inputs [taps - 1, width].
int64_t DeltaStateFloats(const DeltaConfig& config);

// A run of rows that continues one sequence, and where its state lies.
struct DeltaMixerRun {
  int64_t row;
  int64_t n;
  float* state;
};

// hidden [T, E] += mixer(normed hidden); input_norm [E]. Runs are walked in order; rows of a run do not depend on how a
// sequence was cut into runs (with DeltaForm::kRecurrent, which this uses).
void RunDeltaMixer(Compute& compute, const DecoderConfig& config, const DeltaMixerWeights& weights,
                   const float* input_norm, std::span<const DeltaMixerRun> runs, Matrix hidden);

}  // namespace minicpm
