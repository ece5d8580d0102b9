// Implementation of check.h.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace minicpm {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: internal check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace minicpm
