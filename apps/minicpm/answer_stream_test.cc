// The streamed answer is the whole answer, however the stream is cut; and a terminal is given no control characters.
#include "answer_stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "run_report.h"
#include "tests/support/json_schema.h"

namespace minicpm::cli {
namespace {

SplitAnswer Stream(const std::vector<std::string_view>& chunks, bool inside) {
  ReasoningSplitter splitter(inside);
  SplitAnswer all;
  const auto add = [&all](const ReasoningSplitter::Pieces& pieces) {
    all.reasoning += pieces.reasoning;
    all.text += pieces.text;
  };
  for (const std::string_view chunk : chunks) add(splitter.Push(chunk));
  add(splitter.Finish());
  return all;
}

TEST(ReasoningSplitter, AgreesWithTheWholeHoweverItIsCut) {
  const std::string texts[] = {
      "",
      "Hello, world.",
      "Hello \n\n",
      "  \n leading space",
      "<think>\n\n</think>\n\nYes.",
      "<think>\nhm, a < b\n</think>\n\nIt is <b>bold</b>.\n",
      "  <think>x</think> y",
      "<think>never ends \n",
      "hm\n</think>\n\nThe answer",
      "\n\nhm </thin ",
      "a </think> b <think> c </think>",
      "<thinker>",
      "<thi",
      "</think>",
      "<think></think>",
      "1 < 2 and </ is no tag <",
  };
  for (const std::string& text : texts) {
    for (const bool inside : {false, true}) {
      const SplitAnswer whole = SplitReasoning(text, inside);
      for (size_t i = 0; i <= text.size(); ++i) {
        for (size_t j = i; j <= text.size(); ++j) {
          const std::string_view all = text;
          const SplitAnswer cut = Stream({all.substr(0, i), all.substr(i, j - i), all.substr(j)}, inside);
          ASSERT_EQ(cut.text, whole.text) << text << " cut at " << i << " and " << j << ", inside " << inside;
          ASSERT_EQ(cut.reasoning, whole.reasoning) << text << " cut at " << i << " and " << j << ", inside " << inside;
        }
      }
      std::vector<std::string_view> bytes;
      for (size_t i = 0; i < text.size(); ++i) bytes.push_back(std::string_view(text).substr(i, 1));
      EXPECT_EQ(Stream(bytes, inside).text, whole.text) << text;
      EXPECT_EQ(Stream(bytes, inside).reasoning, whole.reasoning) << text;
    }
  }
}

TEST(ReasoningSplitter, DoesNotWaitWithoutReason) {
  ReasoningSplitter splitter(false);
  EXPECT_EQ(splitter.Push("Hello").text, "Hello");
  EXPECT_EQ(splitter.Push(" wor").text, " wor");
  EXPECT_EQ(splitter.Push("ld <").text, "ld");
  EXPECT_EQ(splitter.Push("3").text, " <3");
}

TEST(Console, TerminalsGetNoControlCharacters) {
  EXPECT_EQ(WithoutControls("a\tb\nc é 中 🙂"), "a\tb\nc é 中 🙂");
  EXPECT_EQ(WithoutControls("\x1b[2J\r\x07\x7f"), "?[2J???");
  EXPECT_EQ(WithoutControls("x\xc2\x9bm"), "x?m");         // U+009B, a one-byte escape
  EXPECT_EQ(WithoutControls("x\xc2\xa0y"), "x\xc2\xa0y");  // U+00A0 is only a space
}

TEST(RunReport, IsValidAlsoWhenNothingWasGenerated) {
  RunReport report;
  report.family = "minicpm-v-4_5";
  report.isa = "scalar";
  report.n_threads = 1;
  report.seed = 7;
  report.result.finish_reason = FinishReason::kCancelled;
  report.result.decode_ms = -0.5;  // clocks may be read in any order; a report holds no negative time
  EXPECT_EQ(testing::ValidateText("run.schema.json", RunReportJson(report)), std::vector<std::string>());
  report.answer.text = "invalid \xff bytes";
  EXPECT_EQ(testing::ValidateText("run.schema.json", RunReportJson(report)), std::vector<std::string>());
}

}  // namespace
}  // namespace minicpm::cli
