// Tests of the test helpers: a comparison that cannot fail would make every golden test worthless.
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "store/checkpoint.h"
#include "store/safetensors_writer.h"
#include "tests/support/compare.h"
#include "tests/support/expand_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace minicpm::test {
namespace {

TEST(Within, AcceptsUpToTheLimitAndNotBeyond) {
  const std::vector<float> expected = {0.0f, -4.0f, 2.0f};
  EXPECT_TRUE(Within(expected, std::vector<float>({0.0f, -4.0f, 2.0f}), 0));
  EXPECT_TRUE(Within(expected, std::vector<float>({0.0f, -4.0f, 2.25f}), 0.0625));
  EXPECT_FALSE(Within(expected, std::vector<float>({0.0f, -4.0f, 2.2501f}), 0.0625));
  EXPECT_TRUE(Within(std::vector<double>({0, -4, 2}), std::vector<float>({0.0f, -4.0f, 2.25f}), 0.0625));
}

TEST(Within, CosineCountsOnItsOwn) {
  // Many small values in the wrong direction beside one large right one: the maximum alone would not notice.
  std::vector<float> expected(10000, 0.01f);
  std::vector<float> actual(10000, -0.01f);
  expected[0] = actual[0] = 1.0f;
  const Closeness c = Compare<float>(expected, actual);
  EXPECT_LE(c.max_difference, 0.021 * c.max_expected);
  EXPECT_LT(c.cosine, 0.1);
  EXPECT_FALSE(Within(expected, actual, 0.021));
}

TEST(Within, RefusesNanLengthAndNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> one = {1.0f};
  EXPECT_FALSE(Within(one, std::vector<float>({nan}), 1e9));
  EXPECT_FALSE(Within(std::vector<float>({nan}), one, 1e9));
  EXPECT_FALSE(Within(std::vector<float>({infinity}), std::vector<float>({infinity}), 1e9));
  EXPECT_FALSE(Within(one, std::vector<float>({1.0f, 1.0f}), 1e9));
  EXPECT_FALSE(Within(std::vector<float>(), std::vector<float>(), 1e9));
  EXPECT_TRUE(Within(std::vector<float>({0.0f}), std::vector<float>({0.0f}), 1e-6));
  EXPECT_FALSE(Within(std::vector<float>({0.0f}), std::vector<float>({1e-30f}), 1e-6));
}

TEST(Within, MessageHoldsTheFigures) {
  const auto result = Within(std::vector<float>({4.0f, 2.0f}), std::vector<float>({4.0f, 3.0f}), 0.1);
  const std::string message = result.message();
  EXPECT_NE(message.find("max difference 1 at 1 (expected 2, found 3) is 0.25 of max|expected| = 4"), std::string::npos)
      << message;
}

TEST(TempDir, IsRemoved) {
  std::string path;
  {
    const TempDir dir;
    path = dir.Write("a/b.txt", std::string_view("x\0y", 3));
    EXPECT_EQ(ReadFileBytes(path), std::string("x\0y", 3));
  }
  EXPECT_FALSE(MappedFile::Open(path).has_value());
}

TEST(ExpandCheckpoint, ConvertsFloatsAndKeepsTheRest) {
  const TempDir dir;
  dir.Write("from/config.json", "{}");
  dir.Write("from/sub/note.txt", "n");
  // 1.0, -2.5, 1 + 2^-7 (all exact in bf16), and 3.0e38 (infinity in f16)
  const std::vector<uint16_t> bf16 = {0x3f80, 0xc020, 0x3f81, 0x7f62};
  const std::vector<int32_t> ids = {7, -1};
  const std::vector<SafetensorsFile::Entry> tensors = {
      {"w", {bf16.data(), DType::kBF16, {2, 2}}},
      {"ids", {ids.data(), DType::kI32, {2}}},
  };
  ASSERT_TRUE(WriteSafetensors(dir.File("from/model.safetensors"), tensors).has_value());

  ASSERT_TRUE(ExpandCheckpoint(dir.File("from"), dir.File("f32"), DType::kF32).has_value());
  const Checkpoint f32 = Checkpoint::Open(dir.File("f32")).value();
  const float* w = f32.Get("w", {2, 2}, {DType::kF32}).value().as<float>();
  EXPECT_EQ(std::vector<float>(w, w + 3), std::vector<float>({1.0f, -2.5f, 1.0078125f}));
  EXPECT_EQ(f32.Get("ids", {2}, {DType::kI32}).value().as<int32_t>()[1], -1);
  EXPECT_EQ(ReadFileBytes(dir.File("f32/config.json")), "{}");
  EXPECT_EQ(ReadFileBytes(dir.File("f32/sub/note.txt")), "n");

  ASSERT_TRUE(ExpandCheckpoint(dir.File("f32"), dir.File("f16"), DType::kF16).has_value());
  const Checkpoint f16 = Checkpoint::Open(dir.File("f16")).value();
  const uint16_t* h = f16.Get("w", {2, 2}, {DType::kF16}).value().as<uint16_t>();
  EXPECT_EQ(std::vector<uint16_t>(h, h + 4), std::vector<uint16_t>({0x3c00, 0xc100, 0x3c08, 0x7c00}));

  ASSERT_TRUE(ExpandCheckpoint(dir.File("f32"), dir.File("again"), DType::kBF16).has_value());
  const Checkpoint again = Checkpoint::Open(dir.File("again")).value();
  const uint16_t* b = again.Get("w", {2, 2}, {DType::kBF16}).value().as<uint16_t>();
  EXPECT_EQ(std::vector<uint16_t>(b, b + 4), bf16);
}

}  // namespace
}  // namespace minicpm::test
