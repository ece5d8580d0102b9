// Softmax attention of a few query rows that share one KV head, over blocks of keys, with a running maximum and sum:
//   s_j = scale * (q . k_j);  out = sum_j exp(s_j - max s) v_j / sum_j exp(s_j - max s),  j < visible(row)
// Blocks are visited in order and every sum inside a block has a fixed order, so a row's bits depend neither on the
// other rows of the call nor on how rows were cut into calls. Never stores more than a block of scores per row.
#pragma once

#include <cstdint>

namespace minicpm::kernels {

inline constexpr int64_t kKvBlockTokens = 64;

// One run of up to kKvBlockTokens consecutive keys and values of one layer, all KV heads.
// Key of token t, head h: keys + (h * head_stride + t * token_stride) elements, head_dim elements contiguous.
struct KvBlock {
  const void* keys;
  const void* values;
  // Of 8-bit keys and values: one scale per token and head, [KV heads][kKvBlockTokens], all of it readable.
  const float* key_scales = nullptr;
  const float* value_scales = nullptr;
};

// How keys and values are stored. 8-bit ones stand for themselves times their scale; a score is the sum over the
// integers, then times the scale, and a value's scale multiplies its exponential.
enum class KvFormat : uint8_t { kF32, kF16, kI8 };

// Row r of the call is token r / group, query head r % group of one KV head.
struct AttentionChunk {
  const float* q;    // token 0, first head of the group; heads are head_dim apart
  int64_t q_stride;  // floats between tokens
  float* out;        // laid out as q
  int64_t out_stride;
  int64_t tokens;  // rows = tokens * group
  int64_t group;
  int64_t head_dim;
  float scale;
  KvFormat format;
  const KvBlock* blocks;
  int64_t head_offset;   // elements from a block's start to this KV head
  int64_t scale_offset;  // the same for scales: head * kKvBlockTokens
  int64_t token_stride;  // elements between tokens inside a block
  int64_t visible;       // keys that token 0 sees, >= 1
  int64_t visible_step;  // 0, or 1 when every further token sees one key more
  float* scratch;        // scratch_floats(rows, head_dim) floats, 64-byte aligned
};

struct AttentionKernels {
  int64_t (*scratch_floats)(int64_t rows, int64_t head_dim);
  void (*attend)(const AttentionChunk& chunk);
};

#define MINICPM_ISA(name) extern const AttentionKernels name##_attention;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
