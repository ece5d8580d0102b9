// Products with packed INT8 / INT4 weights: rows of x are quantised once, panels are shared between the threads.
// Private to src/ops: linear.h is the way in.
#pragma once

#include <span>

#include "ops/linear.h"

namespace minicpm {

// The jobs whose weights are packed; others are left alone.
void PackedLinears(Compute& compute, ConstMatrix x, const InputNorm& norm, std::span<const LinearJob> jobs);
// Requires: gate and up are packed, with the same dtype and shape.
void PackedSwiGlu(Compute& compute, ConstMatrix x, const InputNorm& norm, const LinearWeight& gate,
                  const LinearWeight& up, Matrix inner);

}  // namespace minicpm
