// Tests of memory figures: plausible, and growing when memory is touched.
#include "os/memory.h"

#include <cstring>
#include <memory>

#include "gtest/gtest.h"

namespace minicpm {
namespace {

TEST(Memory, FiguresArePlausible) {
  EXPECT_GT(ResidentBytes(), 100u * 1024);
  EXPECT_GE(PeakResidentBytes(), ResidentBytes() / 2);
  EXPECT_GT(AvailableMemoryBytes(), 1u << 20);
}

TEST(Memory, PeakGrowsWithUse) {
  const uint64_t before = PeakResidentBytes();
  constexpr size_t kBytes = size_t{64} << 20;
  auto block = std::make_unique<char[]>(kBytes);
  std::memset(block.get(), 1, kBytes);
  volatile char sink = block[kBytes / 2];
  (void)sink;
  EXPECT_GE(PeakResidentBytes(), before + kBytes / 2);
}

}  // namespace
}  // namespace minicpm
