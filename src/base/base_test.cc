// Tests of base: half floats exhaustively, UTF-8 edge cases, error helpers.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/status.h"
#include "base/utf8.h"
#include "gtest/gtest.h"

namespace minicpm {
namespace {

TEST(Half, EveryF16SurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = F16ToF32(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(f))));
    } else {
      EXPECT_EQ(F32ToF16(f), h);
    }
  }
}

TEST(Half, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = Bf16ToF32(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(f))));
    } else {
      EXPECT_EQ(F32ToBf16(f), h);
    }
  }
}

TEST(Half, MidpointsRoundToEven) {
  for (uint32_t h = 0; h < 0x7c00; ++h) {  // between h and h+1, all finite positives
    const float lo = F16ToF32(static_cast<uint16_t>(h));
    const float hi = h + 1 == 0x7c00 ? 65536.0f : F16ToF32(static_cast<uint16_t>(h + 1));
    const float mid = lo + (hi - lo) / 2;
    EXPECT_EQ(F32ToF16(mid), h % 2 == 0 ? h : h + 1) << h;
    EXPECT_EQ(F32ToF16(std::nextafter(mid, 1e9f)), h + 1) << h;
    EXPECT_EQ(F32ToF16(std::nextafter(mid, 0.0f)), h) << h;
  }
  EXPECT_EQ(F32ToBf16(1.00390625f), 0x3f80);  // 1 + 2^-8: tie, to even
  EXPECT_EQ(F32ToBf16(1.01171875f), 0x3f82);  // 1 + 3 * 2^-8: tie, to even
}

TEST(Utf8, RejectsWhatTheStandardRejects) {
  EXPECT_TRUE(IsValidUtf8("a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"));
  EXPECT_FALSE(IsValidUtf8("\xc0\x80"));          // overlong
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));  // above U+10FFFF
  EXPECT_FALSE(IsValidUtf8("\xe4\xb8"));          // cut off
  EXPECT_EQ(ReplaceInvalidUtf8("a\xe4\xb8z\xff"), "a\xef\xbf\xbdz\xef\xbf\xbd");
}

TEST(Utf8, EncodesAndDecodesEveryScalarValue) {
  for (char32_t cp = 0; cp <= 0x10ffff; ++cp) {
    if (cp >= 0xd800 && cp <= 0xdfff) continue;
    std::string s;
    AppendUtf8(s, cp);
    const Utf8Char c = DecodeUtf8(s, 0);
    ASSERT_TRUE(c.valid);
    ASSERT_EQ(c.code_point, cp);
    ASSERT_EQ(c.length, s.size());
  }
}

TEST(Utf8, IncompleteTail) {
  EXPECT_EQ(IncompleteUtf8Tail("abc"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xe4"), 1u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xe4\xb8"), 2u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xe4\xb8\xad"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(IncompleteUtf8Tail("\xed\xa0"), 0u);  // already invalid: nothing can complete it
  EXPECT_EQ(IncompleteUtf8Tail("\xff"), 0u);
}

TEST(Status, PrintableQuotesHostileBytes) {
  EXPECT_EQ(Printable(std::string_view("a\0b\x1b[2J\xff", 8)), "a?b?[2J?");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

Result<int> Half2(int x) {
  if (x % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "odd");
  return x / 2;
}
Result<int> Quarter(int x) {
  MINICPM_ASSIGN(const int half, Half2(x));
  MINICPM_TRY(Half2(half));
  return half / 2;
}
TEST(Status, MacrosPassErrorsOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(7).error().message, "odd");
  EXPECT_EQ(Quarter(6).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace minicpm
