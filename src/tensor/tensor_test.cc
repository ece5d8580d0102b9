// Tests of tensor: shapes and the arena's promises (alignment, stack discipline, no allocation in steady state).
#include "tensor/tensor.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "tensor/arena.h"

namespace minicpm {
namespace {

TEST(Shape, PrintsAndCounts) {
  const Shape s{1152, 3, 14, 14};
  EXPECT_EQ(s.ToString(), "[1152, 3, 14, 14]");
  EXPECT_EQ(s.elements(), 1152 * 3 * 14 * 14);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
}

// The first step of a model takes more than the arena has; its layers come one after another and must share the memory.
TEST(Arena, ScopesGiveBackWhatDidNotFit) {
  Arena arena;
  std::vector<void*> pieces;
  for (int layer = 0; layer < 50; ++layer) {
    ArenaScope scope(arena);
    float* const a = arena.New<float>(1 << 16);
    {
      const ArenaScope inner(arena);
      arena.New<float>(1 << 16)[0] = 1.0f;
    }
    float* const b = arena.New<float>(1 << 16);
    EXPECT_NE(a, b);
    a[0] = b[(1 << 16) - 1] = 2.0f;
    EXPECT_LE(arena.overflow_bytes(), size_t{2} << 18);
  }
  EXPECT_EQ(arena.overflow_bytes(), 0u);
  arena.Reset();
  EXPECT_EQ(arena.capacity_bytes(), size_t{2} << 18);
}

TEST(Arena, PiecesAreAlignedAndDisjoint) {
  Arena arena;
  float* a = arena.New<float>(3);
  float* b = arena.New<float>(5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  EXPECT_TRUE(b >= a + 16 || a >= b + 16);
}

TEST(Arena, ScopesGiveBack) {
  Arena arena;
  arena.Reserve(1024);
  float* first = nullptr;
  {
    ArenaScope scope(arena);
    first = arena.New<float>(100);
  }
  ArenaScope scope(arena);
  EXPECT_EQ(arena.New<float>(100), first);
}

TEST(Arena, GrowsOnceThenStays) {
  Arena arena;
  for (int step = 0; step < 3; ++step) {
    arena.Reset();
    arena.New<float>(1000);
    arena.New<float>(2000);
    if (step > 0) {
      EXPECT_EQ(arena.capacity_bytes(), 4032u + 8000u);
    }
  }
}

}  // namespace
}  // namespace minicpm
