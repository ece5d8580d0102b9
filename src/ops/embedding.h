// Rows of an embedding table as float32. Not for scaling or positions: models add those.
#pragma once

#include <cstdint>
#include <span>

#include "ops/compute.h"
#include "tensor/tensor.h"

namespace minicpm {

// out [T, E] f32 = rows `ids` [T] of table [N, E] f32 | bf16 | f16, or packed. Requires: 0 <= id < N, checked.
void GatherRows(Compute& compute, const TensorView& table, std::span<const int32_t> ids, Matrix out);

}  // namespace minicpm
