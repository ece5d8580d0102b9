// Python's round() to a whole number, which the official preprocessing uses: halves go to the even neighbour.
// std::round is another function: it takes halves away from zero.
#pragma once

#include <cmath>

namespace minicpm {

// Independent of the thread's rounding mode.
inline double PyRound(double x) {
  const double floor = std::floor(x);
  const double rest = x - floor;
  if (rest != 0.5) return rest < 0.5 ? floor : floor + 1.0;
  return std::fmod(floor, 2.0) == 0.0 ? floor : floor + 1.0;
}

}  // namespace minicpm
