// Tests of what the room says about the processor and its control groups, with made-up group folders.
#include "os/cpu_features.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "os/affinity.h"
#include "os/thread_pool.h"

namespace minicpm {
namespace {

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/minicpm_cgroup_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(CgroupTest, NoLimitIsZero) {
  EXPECT_EQ(CgroupCpuLimit("0::/a\n", root_), 0);
  Put("/a/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuLimit("0::/a\n", root_), 0);
  EXPECT_EQ(CgroupMemoryLeft("0::/a\n", root_), 0u);
}

TEST_F(CgroupTest, V2TakesTheTightestAncestor) {
  Put("/a/b/cpu.max", "400000 100000\n");
  Put("/a/cpu.max", "150000 100000\n");
  Put("/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(CgroupCpuLimit("0::/a/b\n", root_), 1.5);
  Put("/a/b/memory.max", "max\n");
  Put("/a/memory.max", "1000000\n");
  Put("/a/memory.current", "400000\n");
  EXPECT_EQ(CgroupMemoryLeft("0::/a/b\n", root_), 600000u);
}

TEST_F(CgroupTest, V1ReadsItsController) {
  Put("/cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n");
  Put("/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(CgroupCpuLimit("4:memory:/x\n3:cpu,cpuacct:/x\n", root_), 0.5);
  Put("/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCpuLimit("3:cpu,cpuacct:/x\n", root_), 0);
  Put("/memory/x/memory.limit_in_bytes", "5000\n");
  Put("/memory/x/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(CgroupMemoryLeft("4:memory:/x\n", root_), 1u);
}

TEST_F(CgroupTest, NonsenseIsNoLimit) {
  Put("/a/cpu.max", "");
  EXPECT_EQ(CgroupCpuLimit("", root_), 0);
  EXPECT_EQ(CgroupCpuLimit("0::/a", root_), 0);
  EXPECT_EQ(CgroupCpuLimit("garbage\n::\n0::relative\n0::/../..\n", root_), 0);
}

TEST(CpuFeatures, AgreeWithThemselves) {
  const CpuFeatures f = DetectCpuFeatures();
  EXPECT_TRUE(f.avx2 || !f.avx512);
  EXPECT_TRUE(f.avx512 || !f.avx512_vnni);
#if defined(__x86_64__)
  EXPECT_EQ(f.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_FALSE(f.neon);
#elif defined(__aarch64__)
  EXPECT_TRUE(f.neon);
#endif
}

TEST(CpuFeatures, HasAName) { EXPECT_FALSE(CpuModelName().empty()); }

TEST(UsableCores, AtLeastOneAndNoMoreThanAllowed) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), static_cast<int>(AllowedCores().size()));
}

}  // namespace
}  // namespace minicpm
