// Qwen2 / Qwen3 / Qwen3.5 decoder: rows of embeddings in, hidden states and logits out, key/value cache and recurrent
// states in a SequencePool. Attribute names as in transformers' modeling_qwen2.py, modeling_qwen3.py,
// modeling_qwen3_5.py; one block with flags (qkv_bias, qk_norm, output_gate) and, where config.is_delta says so,
// another mixer than attention.
#pragma once

#include <span>
#include <vector>

#include "models/blocks/model_config.h"
#include "models/blocks/sequence_pool.h"
#include "models/blocks/tensor_visitor.h"
#include "models/decoder/delta_mixer.h"
#include "ops/compute.h"

namespace minicpm {

struct DecoderLayer {
  NormField input_norm, post_attention_norm;
  LinearField q;             // [Hq * Hd, E]; with output_gate [2 Hq * Hd, E]: per head its query, then its gate
  LinearField k, v;          // [Hkv * Hd, E]
  LinearField o;             // [E, Hq * Hd]
  NormField q_norm, k_norm;  // [Hd], not Qwen2
  DeltaMixerWeights delta;   // instead of q, k, v, o and their norms
  LinearField gate, up;      // [F, E]
  LinearField down;          // [E, F]
};

struct DecoderWeights {
  TensorView embed_tokens;  // [N, E]
  std::vector<DecoderLayer> layers;
  NormField norm;
  TensorView lm_head;  // [N, E]; the embedding itself when tied
};

// Names every tensor under `prefix` ("llm."; of hybrid decoders "model.language_model."). Norm weights that are stored
// as differences to one get it added while loading.
Status VisitDecoder(const DecoderConfig& config, const std::string& prefix, TensorVisitor& v, DecoderWeights& w);

SequenceLayout DecoderSequenceLayout(const DecoderConfig& config, DType kv_dtype);

// A run of rows of the hidden matrix that continues one sequence.
struct DecoderRun {
  SequencePool::Id seq;
  int64_t row;  // first row in the hidden matrix
  int64_t n;
  int64_t first_position;  // its first position in the sequence
};

// hidden [T, E]: embeddings in, output of the last layer out (before the final norm). Keys and values are written to
// the pool; Requires: SequencePool::Prepare covered every run. Sequences are not advanced. Every row's arithmetic is
// its own, so results do not depend on how rows are grouped into calls.
void RunDecoderLayers(Compute& compute, const DecoderConfig& config, const DecoderWeights& weights, SequencePool& pool,
                      std::span<const DecoderRun> runs, Matrix hidden);

// out [n, E] = final norm of the given rows of hidden.
void FinalNorm(Compute& compute, const DecoderConfig& config, const DecoderWeights& weights, ConstMatrix hidden,
               Matrix out);
// logits [n, N] = normed [n, E] . lm_head^T
void Logits(Compute& compute, const DecoderWeights& weights, ConstMatrix normed, Matrix logits);

}  // namespace minicpm
