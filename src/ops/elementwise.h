// Small row-wise verbs: SwiGLU gate, residual add, rotary embedding. Everything larger has a file of its own.
#pragma once

#include <cstdint>
#include <span>

#include "ops/compute.h"

namespace minicpm {

// gate = silu(gate) * up, [M, F], in place in `gate`.
void SiluMul(Compute& compute, Matrix gate, ConstMatrix up);
// y += x, [M, E].
void Add(Compute& compute, ConstMatrix x, Matrix y);

// cos/sin of position * theta^(-2i/rotary_dim), i < rotary_dim/2. Angles are computed in double and rounded to f32
// once: large positions keep full accuracy.
struct RopeTable {
  Matrix cos;  // [M, rotary_dim / 2]
  Matrix sin;  // [M, rotary_dim / 2]
};
// Fills `table` for `positions` [M].
void FillRopeTable(std::span<const int32_t> positions, double theta, int64_t rotary_dim, RopeTable table);
// Half-split rotation of the first rotary_dim values of every head (pairs i and i + rotary_dim/2), in place; the others
// stay. x [M, n_heads * head_dim]; rotary_dim = 2 * table.cos.cols <= head_dim.
void ApplyRope(Compute& compute, Matrix x, int64_t head_dim, const RopeTable& table);

}  // namespace minicpm
