// Implementation of int8_row.h.
#include "quant/int8_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace minicpm::quant {

float EncodeInt8Row(std::span<const float> x, int8_t* q) {
  float largest = 0;
  bool finite = true;
  for (const float v : x) {
    largest = std::max(largest, std::fabs(v));
    finite &= std::isfinite(v);
  }
  const float inverse = 127.0f / largest;
  if (!finite || !std::isfinite(inverse)) {
    std::memset(q, 0, x.size());
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  for (size_t i = 0; i < x.size(); ++i) q[i] = static_cast<int8_t>(std::lrintf(x[i] * inverse));
  return largest / 127.0f;
}

}  // namespace minicpm::quant
