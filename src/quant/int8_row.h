// A row of numbers as 8-bit integers with one scale: how keys and values are kept (one row = one token and head).
// Not for weights (packed.h) or activations (kernels/qmatmul).
#pragma once

#include <cstdint>
#include <span>

namespace minicpm::quant {

// q[i] = x[i] / scale to nearest even, -127..127, scale = largest |x| / 127, which is returned. All zero when the row
// is (or is so small that 127 / largest is infinite). A row that holds something not finite becomes scale NaN and
// zeros: whatever reads it is NaN instead of plausible.
float EncodeInt8Row(std::span<const float> x, int8_t* q);

}  // namespace minicpm::quant
