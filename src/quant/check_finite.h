// The check that encode.cc relies on but cannot make itself: it is compiled as if infinities and NaN did not exist.
// Private to src/quant.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace minicpm::quant {

// Errors: kCorrupt with row and column of the first of n numbers that is not finite.
Status CheckFinite(const float* w, int64_t n, int64_t row);

}  // namespace minicpm::quant
