// Softmax attention that never stores a full score matrix. Keys and values come as blocks, so a dense tensor and a
// paged cache are the same thing. A row's result depends on its query and the keys it sees only: not on chunking,
// neighbours or threads.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"
#include "ops/compute.h"

namespace minicpm {

// One run of up to kKvBlockTokens (64) consecutive keys and values of one layer, all KV heads.
// Key of token t, head h: keys + (h * head_stride + t * token_stride) elements, head_dim elements contiguous.
using kernels::kKvBlockTokens;
using kernels::KvBlock;

struct AttentionArgs {
  ConstMatrix q;  // [Tq, n_heads * head_dim] f32
  Matrix out;     // [Tq, n_heads * head_dim] f32, not overlapping q
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;  // divides n_heads; query head h reads KV head h / (n_heads / n_kv_heads)
  int64_t head_dim = 0;
  float scale = 1.0f;               // multiplies q.k
  DType kv_dtype = DType::kF32;     // kF32 | kF16 | kI8 (blocks with scales)
  int64_t token_stride = 0;         // elements between tokens inside a block
  int64_t head_stride = 0;          // elements between KV heads inside a block
  std::span<const KvBlock> blocks;  // block b holds keys [64 b, 64 b + 64)
  int64_t n_keys = 0;               // total keys; the last block may be partly filled
  // Query row i sees keys [0, visible(i)): causal ? first_position + i + 1 : n_keys. 1 <= visible <= n_keys.
  bool causal = false;
  int64_t first_position = 0;
};
// Blocks are visited in order with a running maximum, so results are independent of Tq.
void Attention(Compute& compute, const AttentionArgs& args);

// The dense form: k, v [Tk, n_kv_heads * head_dim] f32, all keys visible.
void DenseAttention(Compute& compute, ConstMatrix q, ConstMatrix k, ConstMatrix v, int64_t n_heads, int64_t n_kv_heads,
                    int64_t head_dim, float scale, Matrix out);

}  // namespace minicpm
