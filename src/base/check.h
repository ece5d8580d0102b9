// MINICPM_CHECK: stops the program when *our* code broke a promise. Never reachable from bytes that came from outside.
// For broken input use Result<T> (status.h).
#pragma once

namespace minicpm {

// Writes `file:line: condition` to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace minicpm

#define MINICPM_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::minicpm::CheckFailed(__FILE__, __LINE__, #condition))
