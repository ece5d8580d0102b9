// Whole tensors between float32 and the 16-bit formats: small weights (norms, biases) at load, keys and values into an
// f16 cache.
#pragma once

#include <cstdint>
#include <span>

#include "ops/compute.h"
#include "tensor/tensor.h"

namespace minicpm {

// out [elements] f32. Requires: t is f32 | bf16 | f16. Exact. One thread: meant for load time.
void ToFloat(const TensorView& t, float* out);
// The same with the kernels of `compute`, for rows on the hot path.
void ToFloat(Compute& compute, const TensorView& t, float* out);
// out[i] = half(x[i]), rounded to nearest even.
void ToHalf(Compute& compute, std::span<const float> x, uint16_t* out);

}  // namespace minicpm
