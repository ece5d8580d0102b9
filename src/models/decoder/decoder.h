// Qwen2 / Qwen3 decoder: rows of embeddings in, hidden states and logits out, key/value cache in a SequencePool.
// Attribute names as in transformers' modeling_qwen2.py and modeling_qwen3.py; one block with two flags (qkv_bias,
// qk_norm).
#pragma once

#include <span>
#include <vector>

#include "models/blocks/model_config.h"
#include "models/blocks/sequence_pool.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/compute.h"

namespace minicpm {

struct DecoderLayer {
  NormField input_norm, post_attention_norm;
  LinearField q;             // [Hq * Hd, E]
  LinearField k, v;          // [Hkv * Hd, E]
  LinearField o;             // [E, Hq * Hd]
  NormField q_norm, k_norm;  // [Hd], Qwen3 only
  LinearField gate, up;      // [F, E]
  LinearField down;          // [E, F]
};

struct DecoderWeights {
  TensorView embed_tokens;  // [N, E]
  std::vector<DecoderLayer> layers;
  NormField norm;
  TensorView lm_head;  // [N, E]; the embedding itself when tied
};

// Names every tensor under `prefix` ("llm.").
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
