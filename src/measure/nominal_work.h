// How much work a model's parts are by their formulas: operations (a multiply-add counts two) and bytes. What an
// implementation pads, repeats or avoids does not count, so that its speed can be held against the machine's limits.
#pragma once

#include <cstdint>

namespace minicpm {

struct ModelConfig;

// One view of `n_patches` patches through the vision tower and the resampler.
double SliceOps(const ModelConfig& config, int64_t n_patches);

// `n_tokens` new positions after `n_before` held ones: all layers, causal attention, the head for the last row only.
double PrefillOps(const ModelConfig& config, int64_t n_before, int64_t n_tokens);

// What decoding one token reads of the weights: the language model without the rows of its embedding table that it does
// not need. `embedding_bytes` = size of that table, which is the head, too, when the model ties them.
uint64_t DecodeWeightBytes(const ModelConfig& config, uint64_t language_bytes, uint64_t embedding_bytes);

}  // namespace minicpm
