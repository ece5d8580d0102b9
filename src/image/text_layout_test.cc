// Cleaning and wrapping of text, with a font whose every character is ten pixels wide.
#include "image/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"

namespace minicpm {
namespace {

using ::testing::ElementsAre;

std::string Utf8(std::u32string_view text) {
  std::string s;
  for (const char32_t c : text) AppendUtf8(s, c);
  return s;
}

std::vector<std::string> Wrap(std::string_view utf8, int columns, size_t max_lines = 100) {
  const auto advance = [](char32_t, char32_t) -> int64_t { return 640; };
  std::vector<std::string> lines;
  for (const std::u32string& line : WrapText(DrawableText(utf8), int64_t{640} * columns, max_lines, advance)) {
    lines.push_back(Utf8(line));
  }
  return lines;
}

TEST(DrawableText, DropsWhatCannotBeSeen) {
  EXPECT_EQ(Utf8(DrawableText("a\tb\x01\x1b[2J\x7f")), "a b[2J");
  EXPECT_EQ(Utf8(DrawableText("\xc2\x9b"
                              "x\u00ad")),
            "x");
  EXPECT_EQ(Utf8(DrawableText("\u202eevil\u202c \u2066x\u2069\u200b\ufeff")), "evil x");
  EXPECT_EQ(Utf8(DrawableText("\xff\xc3")), "\ufffd\ufffd");
  EXPECT_EQ(Utf8(DrawableText("a\r\nb\rc\u2028"
                              "d\u2029"
                              "e")),
            "a\nb\nc\nd\ne");
}

TEST(DrawableText, LooksAtSoManyCharactersOnly) {
  const std::u32string cut = DrawableText(std::string(1'000'000, 'x'));
  ASSERT_EQ(cut.size(), kMaxDrawnCharacters);
  EXPECT_EQ(cut.back(), U'…');
  EXPECT_EQ(DrawableText(std::string(kMaxDrawnCharacters - 1, 'x')).back(), U'x');
}

TEST(WrapText, BreaksAtSpaces) {
  EXPECT_THAT(Wrap("yes, the lower left corner", 9), ElementsAre("yes, the", "lower", "left", "corner"));
  EXPECT_THAT(Wrap("abc   def", 3), ElementsAre("abc", "def"));
  EXPECT_THAT(Wrap("exact fit", 9), ElementsAre("exact fit"));
  EXPECT_THAT(Wrap("", 9), ElementsAre());
}

TEST(WrapText, BreaksLongWordsAnywhere) {
  EXPECT_THAT(Wrap("abcdefgh ij", 3), ElementsAre("abc", "def", "gh", "ij"));
  EXPECT_THAT(Wrap("ab", 0), ElementsAre("a", "b"));
}

TEST(WrapText, KeepsNewlinesAndEmptyLines) { EXPECT_THAT(Wrap("a\n\n b\nc\n", 9), ElementsAre("a", "", " b", "c")); }

TEST(WrapText, BreaksBesideChineseButNotBeforeClosingPunctuation) {
  EXPECT_THAT(Wrap("零件有缺陷，在左下角。", 6), ElementsAre("零件有缺陷，", "在左下角。"));
  EXPECT_THAT(Wrap("零件有缺陷，在左下角。", 5), ElementsAre("零件有缺", "陷，在左下", "角。"));
  EXPECT_THAT(Wrap("看「左下」", 2), ElementsAre("看", "「左", "下」"));
  EXPECT_THAT(Wrap("部件A12坏", 3), ElementsAre("部件", "A12", "坏"));
}

TEST(WrapText, TooManyLinesEndWithAnEllipsis) {
  EXPECT_THAT(Wrap("one two three", 5, 2), ElementsAre("one", "two…"));
  EXPECT_THAT(Wrap("one threx four", 5, 2), ElementsAre("one", "thre…"));
  EXPECT_THAT(Wrap("a\nb\nc", 5, 2), ElementsAre("a", "b…"));
  EXPECT_THAT(Wrap("a\nb", 5, 2), ElementsAre("a", "b"));
}

TEST(WrapText, CountsKerning) {
  const auto advance = [](char32_t previous, char32_t c) -> int64_t {
    return previous == U'A' && c == U'V' ? 320 : 640;
  };
  EXPECT_EQ(WrapText(U"AVAVA", 640 * 4, 9, advance).size(), 1u);
  EXPECT_EQ(WrapText(U"AAAAA", 640 * 4, 9, advance).size(), 2u);
}

}  // namespace
}  // namespace minicpm
