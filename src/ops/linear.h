// Linear: y = epilogue(x W^T + b), the matmul everything stands on. Shapes [M, K] x [N, K] -> [M, N]; see
// docs/shapes.md. A row of y depends on its row of x and on W only, bit for bit: not on M, on its neighbours, or on the
// thread count.
#pragma once

#include <span>

#include "ops/compute.h"
#include "tensor/tensor.h"

namespace minicpm {

enum class Activation { kNone, kGeluTanh, kGeluErf, kRelu };

// A weight matrix where it lies. Lifetime: views; the owner of the mapping outlives it.
struct LinearWeight {
  TensorView weight;  // [N, K] f32 | bf16 | f16 row-major, possibly only element-aligned; or INT8 | INT4 packed
  const float* bias = nullptr;  // [N] f32, or null
  int64_t n() const { return weight.shape[0]; }
  int64_t k() const { return weight.shape[1]; }
};

// One of several products of the same input: y [M, N] f32 = act(x W^T + b), or y += x W^T + b.
struct LinearJob {
  LinearWeight w;
  Matrix y;
  Activation act = Activation::kNone;
  bool add = false;
};

// What is done to each row of x first: nothing without a weight, RMSNorm without a bias, else LayerNorm.
struct InputNorm {
  const float* weight = nullptr;  // [K]
  const float* bias = nullptr;    // [K]
  float eps = 0;
};

// All jobs, with norm(x [M, K]) as their input. Packed weights quantise each row of it to 8 bits once
// (kernels/qmatmul), and their jobs share one parallel loop. Requires: no y overlaps x.
void NormLinears(Compute& compute, ConstMatrix x, const InputNorm& norm, std::span<const LinearJob> jobs);
// inner [M, F] = silu(norm(x) gate^T) * (norm(x) up^T); gate, up [F, K] without bias.
void NormSwiGlu(Compute& compute, ConstMatrix x, const InputNorm& norm, const LinearWeight& gate,
                const LinearWeight& up, Matrix inner);
// y [M, N] f32 = act(x [M, K] f32 . W^T + b). Requires: y does not overlap x.
void Linear(Compute& compute, ConstMatrix x, const LinearWeight& w, Matrix y, Activation act = Activation::kNone);
// y += x . W^T + b (the residual form).
void LinearAdd(Compute& compute, ConstMatrix x, const LinearWeight& w, Matrix y);
// y = x [M, K] . P [K, N] with P stored row-major as used (the resampler's `x @ proj`). P f32 | bf16 | f16.
void MatmulPlain(Compute& compute, ConstMatrix x, const TensorView& p, Matrix y);

}  // namespace minicpm
