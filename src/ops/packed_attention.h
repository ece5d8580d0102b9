// Attention with 8-bit queries, keys and values, all keys visible (kernels/qattention): the vision tower's, when its
// weights are quantised. Not for cached or causal attention: see attention.h.
#pragma once

#include "ops/compute.h"
#include "tensor/tensor.h"

namespace minicpm {

// Keys and values of all heads in 8 bits, in memory of the caller. Packed once, read by any number of queries.
struct PackedKeysValues {
  std::byte* memory = nullptr;  // PackedKeysValuesBytes, 64-byte aligned
  int64_t n_keys = 0;
  int64_t n_heads = 0;
  int64_t head_dim = 0;
};
int64_t PackedKeysValuesBytes(int64_t n_keys, int64_t n_heads, int64_t head_dim);

// k, v [n_keys, n_heads * head_dim] f32, same stride -> packed.memory.
void PackKeysValues(Compute& compute, ConstMatrix k, ConstMatrix v, const PackedKeysValues& packed);
// out [Tq, n_heads * head_dim] f32 = softmax(scale q k^T) v. q like out. A row's bits depend on its query only.
void PackedAttention(Compute& compute, ConstMatrix q, const PackedKeysValues& packed, float scale, Matrix out);

}  // namespace minicpm
