// Attention inside small groups of neighbouring rows, such as the four patches of a window. Not for long sequences:
// attention.h.
#pragma once

#include <cstdint>

#include "ops/compute.h"

namespace minicpm {

// Largest group.
inline constexpr int64_t kMostGroupRows = 16;

// Rows [g * group, (g + 1) * group) of q attend to the same rows of k and v, all heads. q, k, v, out [M, n_heads *
// head_dim], M a multiple of group; out may be q. scale multiplies q.k.
void GroupAttention(Compute& compute, ConstMatrix q, ConstMatrix k, ConstMatrix v, int64_t group, int64_t n_heads,
                    float scale, Matrix out);

}  // namespace minicpm
