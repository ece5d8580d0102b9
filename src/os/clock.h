// Monotonic time in milliseconds. Not wall-clock time.
#pragma once

#include <chrono>

namespace minicpm {

inline double NowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace minicpm
