// LayerNorm and RMSNorm over the last dimension, f32, in place or not. Not the place for per-model weight tricks (1 + w
// is folded at load).
#pragma once

#include "ops/compute.h"

namespace minicpm {

// y = (x - mean) / sqrt(var + eps) * weight + bias; population variance. x, y [M, E]; may be the same memory.
void LayerNorm(Compute& compute, ConstMatrix x, const float* weight, const float* bias, float eps, Matrix y);
// y = x / sqrt(mean(x^2) + eps) * weight. x, y [M, E]; may be the same memory.
void RmsNorm(Compute& compute, ConstMatrix x, const float* weight, float eps, Matrix y);
// RmsNorm of every head separately, in place: x [M, n_heads * head_dim], weight [head_dim] (Qwen3 q_norm / k_norm).
void RmsNormHeads(Compute& compute, Matrix x, const float* weight, int64_t head_dim, float eps);

}  // namespace minicpm
