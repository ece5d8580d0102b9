// Tests of the probe: it measures something plausible and leaves no trace. How exact it is shows beside other tools
// only.
#include "probe/probe.h"

#include "gtest/gtest.h"
#include "kernels/limit/limit.h"

namespace minicpm {
namespace {

TEST(Probe, MeasuresSomethingPlausible) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    const kernels::KernelTable& scalar = kernels::KernelTables().back();
    auto probe = ReadProbe::Create(pool, scalar, size_t{16} << 20);
    ASSERT_TRUE(probe.has_value());
    const double read = probe->MeasureGbPerS(3);
    EXPECT_GT(read, 0.001);
    EXPECT_LT(read, 100000);
    const double flops = MeasureF32GflopPerS(pool, scalar, 3, 2);
    EXPECT_GT(flops, 0.001);
    EXPECT_LT(flops, 100000);
    for (const auto measure : {MeasureInt8GopPerS, MeasureInt4GopPerS}) {
      const double ops = measure(pool, scalar, 3, 2);
      EXPECT_GT(ops, 0.001);
      EXPECT_LT(ops, 1000000);
    }
  }
}

// One thread's loops do what they are counted for: twice the turns, twice the sum (modulo 2^32).
TEST(Probe, IntegerLoopsAddUpEveryTurn) {
  const kernels::LimitKernels& scalar = *kernels::KernelTables().back().limit;
  for (const auto loop : {scalar.int8_mix, scalar.int4_mix}) {
    const auto one = static_cast<uint32_t>(loop(1));
    EXPECT_NE(one, 0u);
    EXPECT_EQ(static_cast<uint32_t>(loop(1000)), 1000 * one);
  }
}

TEST(Probe, RefusesMoreThanThereIs) {
  ThreadPool pool(1);
  const auto probe = ReadProbe::Create(pool, kernels::KernelTables().back(), size_t{1} << 60);
  ASSERT_FALSE(probe.has_value());
  EXPECT_EQ(probe.error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(ReadProbe::Create(pool, kernels::KernelTables().back(), 16).has_value());
}

TEST(PageBlock, IsAlignedZeroedAndMovable) {
  auto block = PageBlock::Allocate(5 << 20);
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block->bytes().data()) % (2 << 20), 0u);
  EXPECT_EQ(block->bytes().size(), 5u << 20);
  EXPECT_EQ(block->bytes()[(5 << 20) - 1], std::byte{0});
  block->bytes()[3] = std::byte{7};
  PageBlock moved = std::move(block).value();
  EXPECT_EQ(moved.bytes()[3], std::byte{7});
  EXPECT_FALSE(PageBlock::Allocate(SIZE_MAX / 2).has_value());
}

}  // namespace
}  // namespace minicpm
