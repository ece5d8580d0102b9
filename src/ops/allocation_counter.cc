// Replaces operator new and delete of a test program by counting ones. A file of its own, so that nothing is inlined.
#include <atomic>
#include <cstdlib>
#include <new>

#include "ops/test_util.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

int64_t minicpm::testing_util::Allocations() { return allocations.load(); }

void* operator new(size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t n, std::align_val_t align) {
  ++allocations;
  const auto a = static_cast<size_t>(align);
  if (void* p = std::aligned_alloc(a, (n + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
