// Implementation of nominal_work.h.
#include "measure/nominal_work.h"

#include "models/blocks/model_config.h"

namespace minicpm {
namespace {

// x [m, k] . W [n, k]^T
double MatmulOps(int64_t m, int64_t n, int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Scores and weighted sums of `pairs` pairs of query and key, all heads together `width` wide.
double AttentionOps(double pairs, int64_t width) { return 4.0 * pairs * static_cast<double>(width); }

}  // namespace

double SliceOps(const ModelConfig& config, int64_t n_patches) {
  const VisionConfig& v = config.vision;
  const double pairs = static_cast<double>(n_patches) * static_cast<double>(n_patches);
  const double layer = 4 * MatmulOps(n_patches, v.n_embed, v.n_embed) + 2 * MatmulOps(n_patches, v.n_ffn, v.n_embed) +
                       AttentionOps(pairs, v.n_embed);
  double ops = MatmulOps(n_patches, v.n_embed, v.n_patch_values()) + static_cast<double>(v.n_kept_layers()) * layer;

  const ResamplerConfig& r = config.resampler;
  if (r.n_input != r.n_embed) ops += MatmulOps(n_patches, r.n_embed, r.n_input);
  ops += 2 * MatmulOps(n_patches, r.n_embed, r.n_embed);    // keys, values
  ops += 3 * MatmulOps(r.n_queries, r.n_embed, r.n_embed);  // queries, output, projection
  return ops + AttentionOps(static_cast<double>(r.n_queries) * static_cast<double>(n_patches), r.n_embed);
}

double PrefillOps(const ModelConfig& config, int64_t n_before, int64_t n_tokens) {
  const DecoderConfig& d = config.decoder;
  const int64_t q = d.n_heads * d.head_dim;
  const int64_t kv = d.n_kv_heads * d.head_dim;
  const auto n = static_cast<double>(n_tokens);
  const double pairs = n * static_cast<double>(n_before) + n * (n + 1) / 2;
  const double layer = 2 * MatmulOps(n_tokens, q, d.n_embed) + 2 * MatmulOps(n_tokens, kv, d.n_embed) +
                       3 * MatmulOps(n_tokens, d.n_ffn, d.n_embed) + AttentionOps(pairs, q);
  return static_cast<double>(d.n_layers) * layer + MatmulOps(1, d.n_vocab, d.n_embed);
}

uint64_t DecodeWeightBytes(const ModelConfig& config, uint64_t language_bytes, uint64_t embedding_bytes) {
  return config.decoder.tied_head ? language_bytes : language_bytes - embedding_bytes;
}

}  // namespace minicpm
