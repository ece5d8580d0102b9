// Weights whose f32 values fit neither bf16 nor f16, stored in both. (The committed tiny weights fit both exactly, so
// the goldens cannot show what rounding does.)
#include <cstdio>
#include <cstring>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/golden/tiny_model.h"
#include "tests/support/compare.h"

namespace minicpm::test {
namespace {

// Multiplies every weight by 1 + e, |e| < 2^-8 pseudo-random: no value stays representable in bf16.
void Disturb(const std::string& path) {
  const std::string before = ReadFileBytes(path);
  uint64_t header = 0;
  std::memcpy(&header, before.data(), 8);
  std::string bytes = before;
  uint32_t state = 1;
  for (size_t at = 8 + header; at + 4 <= bytes.size(); at += 4) {
    state = state * 1664525u + 1013904223u;
    float value = 0;
    std::memcpy(&value, bytes.data() + at, 4);
    value *= 1.0f + (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) / 128.0f;
    std::memcpy(bytes.data() + at, &value, 4);
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<float> LogitsOf(const std::string& folder) {
  auto engine = Engine::Open(folder, {});
  EXPECT_TRUE(engine.has_value()) << engine.error().message;
  auto backend = (*engine)->NewBackend({.kv_dtype = DType::kF32, .context = 2048});
  auto session = Session::Create(*engine, **backend, {.context = 2048});
  auto image = LoadImageInput(std::string(MINICPM_SOURCE_DIR) + "/tests/data/photos/coffee.jpg");
  Message message;
  message.parts = {{"", *image}, {"What is in the image?", nullptr}};
  auto prompt = (*engine)->BuildPrompt({&message, 1}, {});
  EXPECT_TRUE((*session)->Feed(*prompt, nullptr, nullptr).value());
  const auto logits = (*session)->last_logits();
  return {logits.begin(), logits.end()};
}

// The engine must add nothing of its own: a bf16 or f16 file and an f32 file with the same values give the same bits.
// What the rounding itself does to the logits is a property of the weights; it is printed, and stands in
// docs/verification.md.
TEST(Rounding, HalfPrecisionFilesGiveTheBitsOfTheirValues) {
  for (const std::string& family : TinyFamilies()) {
    TempDir exact;
    ASSERT_TRUE(ExpandCheckpoint(TinyFolder(family), exact.path(), DType::kF32).has_value());
    Disturb(exact.File("model.safetensors"));
    const std::vector<float> original = LogitsOf(exact.path());
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      TempDir rounded, widened;
      ASSERT_TRUE(ExpandCheckpoint(exact.path(), rounded.path(), dtype).has_value());
      ASSERT_TRUE(ExpandCheckpoint(rounded.path(), widened.path(), DType::kF32).has_value());
      const std::vector<float> actual = LogitsOf(rounded.path());
      EXPECT_EQ(actual, LogitsOf(widened.path())) << family << " " << NameOf(dtype);
      const Closeness c = Compare<float>(original, actual);
      EXPECT_GT(c.max_difference, 0.0) << "the rounding changed nothing: the test would prove nothing";
      std::printf("%s %s: cosine to unrounded weights %.6f\n", family.c_str(), NameOf(dtype), c.cosine);
    }
  }
}

}  // namespace
}  // namespace minicpm::test
