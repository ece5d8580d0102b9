// Tests of unicode.h: classes, and NFC against utf8proc's own (an independent walk over the same tables).
#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "text/test_text.h"

namespace minicpm {
namespace {

std::string Nfc(std::string_view text) {
  std::string out;
  AppendNfc(text, out);
  return out;
}

std::string LibraryNfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          static_cast<utf8proc_ssize_t>(text.size()), &result, options);
  EXPECT_GE(n, 0);
  const std::string out(reinterpret_cast<const char*>(result), static_cast<size_t>(n));
  std::free(result);  // NOLINT(cppcoreguidelines-no-malloc): utf8proc's contract
  return out;
}

TEST(Unicode, ClassesOfCommonCharacters) {
  for (const char32_t c : {U'a', U'Z', char32_t{0xe9}, char32_t{0x4e2d}, char32_t{0x2b0}, char32_t{0xaa}}) {
    EXPECT_EQ(ClassOf(c), CharClass::kLetter) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'0', U'9', char32_t{0xbd}, char32_t{0x663}, char32_t{0x2167}, char32_t{0x2460}}) {
    EXPECT_EQ(ClassOf(c), CharClass::kNumber) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {char32_t{0x301}, char32_t{0x93e}, char32_t{0x20dd}, char32_t{0xfe0f}}) {
    EXPECT_EQ(ClassOf(c), CharClass::kMark) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'\0', char32_t{0x1c}, U'!', U'_', char32_t{0x180e}, char32_t{0x200b}, char32_t{0x1f600},
                           char32_t{0xe000}, char32_t{0x10ffff}}) {
    EXPECT_EQ(ClassOf(c), CharClass::kOther) << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(Unicode, WhiteSpaceIsUnicodesProperty) {
  std::vector<char32_t> found;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (ClassOf(c) == CharClass::kSpace) found.push_back(c);
  }
  const std::vector<char32_t> expected = {0x9,    0xa,    0xb,    0xc,    0xd,    0x20,   0x85,   0xa0,   0x1680,
                                          0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                          0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  EXPECT_EQ(found, expected);
}

TEST(Unicode, KnowsTheLettersOfUnicode16) {
  EXPECT_EQ(ClassOf(0x2EBF0), CharClass::kLetter);  // CJK extension I, Unicode 15.1
  EXPECT_EQ(ClassOf(0x2EE5E), CharClass::kOther);   // behind its end
  EXPECT_EQ(ClassOf(0x10D40), CharClass::kNumber);  // Garay digit zero, Unicode 16
  EXPECT_EQ(ClassOf(0x113B8), CharClass::kMark);    // Tulu-Tigalari vowel sign, Unicode 16
}

TEST(Unicode, ComposesAndReorders) {
  EXPECT_EQ(Nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(Nfc("\u212b"), "\u00c5");                // Angstrom sign
  EXPECT_EQ(Nfc("\u1112\u1161\u11ab"), "\ud55c");    // Hangul
  EXPECT_EQ(Nfc("\uac00\u11a8"), "\uac01");          // Hangul, syllable + final
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093c");          // composition exclusion
  EXPECT_EQ(Nfc("q\u0307\u0323"), "q\u0323\u0307");  // order by combining class
  EXPECT_EQ(Nfc("\u304b\u3099"), "\u304c");          // kana + voiced mark
  EXPECT_EQ(Nfc("plain ascii, \u4e2d\u6587"), "plain ascii, \u4e2d\u6587");
}

TEST(Unicode, LeavesMarksYoungerThanTheTokenizersDataInPlace) {
  // U+08D3 has combining class 220 since Unicode 11; the tokenizers' NFC does not know it and moves nothing across it.
  EXPECT_EQ(Nfc("a\u0345\u08d3\u0301"), "a\u0345\u08d3\u0301");
  EXPECT_NE(LibraryNfc("a\u0345\u08d3\u0301"), "a\u0345\u08d3\u0301");
}

TEST(Unicode, EveryCodePointAloneAndInContextAgreesWithTheLibrary) {
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string alone;
    AppendUtf8(alone, c);
    ASSERT_EQ(Nfc(alone), LibraryNfc(alone)) << std::hex << static_cast<uint32_t>(c);
    // A character that may start a chunk must not compose with a character before it.
    std::string pair = "\u0061" + alone;
    NfcChunks chunks(pair);
    ASSERT_TRUE(chunks.Next());
    if (chunks.end() != 1) continue;
    for (const char* before : {"a", "\u1100", "\uac00", "\u304b", "\u0c46", "\u09c7", "\u1025", "\U00011131"}) {
      const std::string both = before + alone;
      if (c == 0x11930 || ClassOf(c) == CharClass::kMark) continue;  // the never-moved ones, on purpose different
      ASSERT_EQ(Nfc(both), LibraryNfc(both)) << before << std::hex << static_cast<uint32_t>(c);
    }
  }
}

TEST(Unicode, RandomTextAgreesWithTheLibrary) {
  std::mt19937 rng(7);
  std::vector<char32_t> marks = {0x300, 0x301, 0x302, 0x304, 0x307,  0x308,  0x323,  0x327, 0x328, 0x334, 0x338,  0x345,
                                 0x5b0, 0x64b, 0x93c, 0x94d, 0x3099, 0x1161, 0x11a8, 0x9be, 0xcc2, 0xcd5, 0x1d165};
  for (int i = 0; i < 30000; ++i) {
    std::string text;
    for (int k = 0; k < 4; ++k) {
      text += testing::RandomText(rng, testing::MixedCharacters(), 3) + testing::RandomText(rng, marks, 4);
    }
    ASSERT_EQ(Nfc(text), LibraryNfc(text)) << text;
  }
}

TEST(Unicode, ALongHostileRunOfMarksIsSorted) {
  std::string text = "a";
  const int n = 300000;
  for (int i = 0; i < n; ++i) text += i % 2 == 0 ? "\u0345" : "\u0334";  // classes 240 and 1
  std::string expected = "a";
  for (int i = 0; i < n / 2; ++i) expected += "\u0334";
  for (int i = 0; i < n / 2; ++i) expected += "\u0345";
  EXPECT_EQ(Nfc(text), expected);
}

}  // namespace
}  // namespace minicpm
