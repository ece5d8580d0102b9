// Tests of pre_tokenizer.h and regex_splitter.h: the hand-written patterns against PCRE2, and PCRE2's bounds.
#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/regex_splitter.h"
#include "text/test_text.h"

namespace minicpm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Splitter>
std::vector<std::string> Pieces(const Splitter& splitter, std::string_view text) {
  std::vector<std::string> pieces;
  splitter.Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::vector<std::string> Qwen2(std::string_view text) {
  return Pieces(PreTokenizer::FromPattern(kQwen2Pattern).value(), text);
}
std::vector<std::string> Marks(std::string_view text) {
  return Pieces(PreTokenizer::FromPattern(kQwen35Pattern).value(), text);
}

TEST(PreTokenizer, WordsNumbersSymbols) {
  EXPECT_THAT(Qwen2("Hello, world! 2024"), ElementsAre("Hello", ",", " world", "!", " ", "2", "0", "2", "4"));
  EXPECT_THAT(Qwen2("I'm we'Ve they'LL 'x"), ElementsAre("I", "'m", " we", "'Ve", " they", "'LL", " '", "x"));
  EXPECT_THAT(Qwen2("!hello"), ElementsAre("!hello"));
  EXPECT_THAT(Qwen2("it'\u017f"), ElementsAre("it", "'\u017f"));
  EXPECT_THAT(Qwen2(""), ElementsAre());
}

TEST(PreTokenizer, WhiteSpace) {
  EXPECT_THAT(Qwen2("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(Qwen2("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(Qwen2("a \n\n  b"), ElementsAre("a", " \n\n", " ", " b"));
  EXPECT_THAT(Qwen2("a!\n\nb"), ElementsAre("a", "!\n\n", "b"));
  EXPECT_THAT(Qwen2("\t1"), ElementsAre("\t", "1"));
  EXPECT_THAT(Qwen2("a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000b"));
}

TEST(PreTokenizer, MarksBelongToWordsOnlyInTheLaterPattern) {
  EXPECT_THAT(Qwen2("x\u0302y"), ElementsAre("x", "\u0302y"));
  EXPECT_THAT(Marks("x\u0302y"), ElementsAre("x\u0302y"));
  EXPECT_THAT(Marks("\u0302"), ElementsAre("\u0302"));
  EXPECT_THAT(Marks("1\u0302"), ElementsAre("1", "\u0302"));
}

TEST(PreTokenizer, AgreesWithPcre2OnRandomText) {
  std::mt19937 rng(11);
  for (const std::string_view pattern : {kQwen2Pattern, kQwen35Pattern}) {
    const auto native = PreTokenizer::FromPattern(pattern).value();
    const auto oracle = RegexSplitter::Compile(pattern).value();
    for (int i = 0; i < 40000; ++i) {
      const std::string text = testing::RandomText(rng, testing::MixedCharacters(), 14);
      ASSERT_EQ(Pieces(native, text), Pieces(oracle, text)) << text;
    }
  }
}

TEST(PreTokenizer, PiecesAreTheWholeText) {
  std::mt19937 rng(12);
  const auto native = PreTokenizer::FromPattern(kQwen2Pattern).value();
  for (int i = 0; i < 5000; ++i) {
    const std::string text = testing::RandomText(rng, testing::MixedCharacters(), 30);
    std::string joined;
    native.Split(text, [&](std::string_view piece) {
      EXPECT_FALSE(piece.empty());
      joined += piece;
    });
    ASSERT_EQ(joined, text);
  }
}

TEST(PreTokenizer, AnotherPatternRunsOnPcre2) {
  const auto splitter = PreTokenizer::FromPattern(R"(\d{1,3}|[^\d\s]+)").value();
  EXPECT_THAT(Pieces(splitter, "ab12345 c"), ElementsAre("ab", "123", "45", " ", "c"));
}

TEST(RegexSplitter, SpaceAndWordMeanWhatTheyMeanToTheTokenizers) {
  const auto space = RegexSplitter::Compile(R"(\s+)").value();
  EXPECT_THAT(Pieces(space, "a\u180e\u3000b"), ElementsAre("a\u180e", "\u3000", "b"));  // U+180E is no white space
  const auto word = RegexSplitter::Compile(R"([\w]+)").value();
  EXPECT_THAT(Pieces(word, "e\u0301_1!"), ElementsAre("e\u0301_1", "!"));
  const auto not_space = RegexSplitter::Compile(R"(\S)").value();
  EXPECT_THAT(Pieces(not_space, "a b"), ElementsAre("a", " ", "b"));
}

TEST(RegexSplitter, EmptyMatchesCutWithoutLosingText) {
  EXPECT_THAT(Pieces(RegexSplitter::Compile("(?=b)").value(), "abab"), ElementsAre("a", "ba", "b"));
  EXPECT_THAT(Pieces(RegexSplitter::Compile("x*").value(), "\u4e2dxx\u4e2d"), ElementsAre("\u4e2d", "xx", "\u4e2d"));
}

TEST(RegexSplitter, RefusesWhatItCannotTranslate) {
  for (const char* pattern : {R"(\h)", R"([a[b]])", R"([a&&b])", R"([\S])", R"(\bx)", R"(\Kx)", R"([])"}) {
    const auto splitter = RegexSplitter::Compile(pattern);
    ASSERT_FALSE(splitter.has_value()) << pattern;
    EXPECT_EQ(splitter.error().code, ErrorCode::kUnsupported) << pattern;
  }
  const auto broken = RegexSplitter::Compile("(a");
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(broken.error().message, HasSubstr("(a"));
  EXPECT_FALSE(RegexSplitter::Compile(std::string(10000, 'a')).has_value());
}

TEST(RegexSplitter, AHostilePatternEndsAndLosesNothing) {
  const std::string text(200000, 'a');
  for (const char* pattern : {"(a+)+b", "(a|aa)+$b", R"(\p{L}++1)", "(?=(a+))a*b\\1", "a*a*a*a*a*b", "(?:a?){50}b"}) {
    const auto pieces = Pieces(RegexSplitter::Compile(pattern).value(), text);
    ASSERT_EQ(pieces.size(), 1U) << pattern;
    EXPECT_EQ(pieces[0], text) << pattern;
  }
}

TEST(RegexSplitter, TheKnownPatternsStayInsideTheBoundOnLongRuns) {
  for (const std::string_view pattern : {kQwen2Pattern, kQwen35Pattern}) {
    const auto native = PreTokenizer::FromPattern(pattern).value();
    const auto oracle = RegexSplitter::Compile(pattern).value();
    for (const char* unit : {" ", "\n", "a", "!", "1", " a", "\r\n", " \n", "'"}) {
      std::string text;
      while (text.size() < 100000) text += unit;
      text += "x!\n ";
      EXPECT_EQ(Pieces(native, text), Pieces(oracle, text)) << unit;
    }
  }
}

}  // namespace
}  // namespace minicpm
