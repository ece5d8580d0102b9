// Counts heap allocations while tokens are generated: from the second token on there must be none.
// The global operators new are replaced in this program only.
#include <atomic>
#include <cstdlib>
#include <new>

#include "gtest/gtest.h"
#include "tests/golden/tiny_model.h"

namespace {
std::atomic<int64_t> g_allocations{0};

void* Count(size_t bytes, size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) std::abort();
  return p;
}
}  // namespace

void* operator new(size_t n) { return Count(n, 1); }
void* operator new[](size_t n) { return Count(n, 1); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return Count(n, 1); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return Count(n, 1); }
void* operator new(size_t n, std::align_val_t a) { return Count(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return Count(n, static_cast<size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace minicpm::test {
namespace {

// Remembers the counter at the first and the last piece of text.
class Counter : public GenerationListener {
 public:
  void OnText(std::string_view) override {
    const int64_t now = g_allocations.load();
    if (pieces_ == 1) first_ = now;
    last_ = now;
    ++pieces_;
  }
  int64_t pieces() const { return pieces_; }
  int64_t allocations() const { return last_ - first_; }

 private:
  int64_t pieces_ = 0, first_ = 0, last_ = 0;
};

TEST(Allocation, TheCounterCounts) {
  const int64_t before = g_allocations.load();
  delete new int(1);
  EXPECT_GT(g_allocations.load(), before);
}

TEST(Allocation, NonePerDecodedToken) {
  for (const std::string& family : TinyFamilies()) {
    for (const DType kv : {DType::kF32, DType::kF16, DType::kI8}) {
      TinyModel m(family, {.weights = DType::kBF16, .kv = kv});
      ASSERT_TRUE(m.ok());
      const Prompt prompt = m.MakePrompt("Hello", {});
      for (const float temperature : {0.0f, 0.8f}) {
        GenerationOptions options = GreedyOptions(200);
        options.sampling.temperature = temperature;
        options.sampling.top_k = 50;
        options.sampling.repetition_penalty = 1.05f;
        options.stop = {"a string that never comes"};
        Counter counter;
        ASSERT_TRUE(m.session->Generate(prompt, options, &counter).has_value());
        ASSERT_GT(counter.pieces(), 20) << family;
        EXPECT_EQ(counter.allocations(), 0) << family << ", temperature " << temperature;
      }
    }
  }
}

}  // namespace
}  // namespace minicpm::test
