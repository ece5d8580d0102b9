// The built program, `minicpm chat`, from a pipe and on a terminal, on the bundled tiny models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli_test_process.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

const std::string kV45 = TinyModel("minicpm-v-4_5");

std::string Data(const std::string& name) { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/" + name; }

Words ChatWords(const Words& more = {}, const std::string& model = kV45) {
  Words words = {"chat", model, "--temperature", "0", "--max-new-tokens", "10"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The conversation that a chat leaves in a file, read back.
json Talk(const std::string& lines, const Words& more = {}, const std::string& model = kV45) {
  const test::TempDir dir;
  const std::string file = dir.File("talk.json");
  const Outcome outcome = Minicpm(ChatWords(more, model), lines + "/save " + file + "\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(test::ReadFileBytes(file), nullptr, false)["messages"];
}

// What `run` answers to a conversation.
std::string Answer(const json& messages, const std::string& model = kV45) {
  const test::TempDir dir;
  const std::string file = dir.Write("m.json", messages.dump());
  const Outcome outcome =
      Minicpm({"run", model, "--messages", file, "--temperature", "0", "--max-new-tokens", "10", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false)["text"];
}

TEST(Chat, EveryAnswerIsWhatAFreshRunSays) {
  for (const char* family : {"minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"}) {
    const std::string model = TinyModel(family);
    const json talk = Talk("Hello\n/image " + Data("photos/coffee.jpg") + "\n/image " + Data("images/rgb8.png") +
                               "\nWhat is in these?\nAnd what else?\n",
                           {}, model);
    ASSERT_EQ(talk.size(), 6u) << talk.dump();
    for (const size_t answer : {1, 3, 5}) {
      EXPECT_EQ(talk[answer]["role"], "assistant");
      json before = json::array();
      for (size_t i = 0; i < answer; ++i) before.push_back(talk[i]);
      EXPECT_EQ(Answer(before, model), talk[answer]["content"].get<std::string>()) << family << " answer " << answer;
    }
    ASSERT_EQ(talk[2]["content"].size(), 3u);
    EXPECT_EQ(talk[2]["content"][0]["image_url"]["url"], Data("photos/coffee.jpg"));
    EXPECT_EQ(talk[2]["content"][2]["text"], "What is in these?");
  }
}

TEST(Chat, AnswersGoToStdoutAndTheRestToStderr) {
  const Outcome outcome = Minicpm(ChatWords({"--quiet"}), "Hello\n");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, Answer({{{"role", "user"}, {"content", "Hello"}}}) + "\n");
}

TEST(Chat, MistakesDoNotEndIt) {
  const Outcome outcome =
      Minicpm(ChatWords(), "/image /no/such.png\n/dance\n/image\n/save\n/reset now\nHello\n/history\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: /no/such.png"));
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: unknown command /dance, /help lists them\n"));
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: /image: expected a file name\n"));
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: /save: expected a file name\n"));
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: /reset takes nothing after it"));
  EXPECT_THAT(outcome.out, HasSubstr("user: Hello\nassistant: "));
}

TEST(Chat, AFullContextDoesNotEndIt) {
  const std::string much(4000, 'x');
  const Outcome outcome = Minicpm(ChatWords({"--context", "200"}), much + "\nHello\n/history\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the message was not kept"));
  EXPECT_THAT(outcome.out, HasSubstr("user: Hello\nassistant: "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("xxxx")));
}

TEST(Chat, LinesAndCommands) {
  const json talk = Talk("/system Be brief.\nfirst line\\\nsecond line\n\n   \n /not a command\n");
  ASSERT_EQ(talk.size(), 5u) << talk.dump();
  EXPECT_EQ(talk[0]["role"], "system");
  EXPECT_EQ(talk[0]["content"], "Be brief.");
  EXPECT_EQ(talk[1]["content"], "first line\nsecond line");
  EXPECT_EQ(talk[3]["content"], "/not a command");
  const json reset = Talk("Hello\n/reset\nAgain\n", {"--system", "S"});
  ASSERT_EQ(reset.size(), 3u) << reset.dump();
  EXPECT_EQ(reset[0]["content"], "S");
  EXPECT_EQ(reset[1]["content"], "Again");
  const json none = Talk("/system\nHello\n", {"--system", "S"});
  EXPECT_EQ(none[0]["role"], "user");
}

TEST(Chat, TheLastLineNeedsNoNewlineAndQuitLeaves) {
  EXPECT_THAT(Minicpm(ChatWords(), "Hello").out, Not(StartsWith("\n")));
  const Outcome quit = Minicpm(ChatWords(), "/quit\nHello\n");
  EXPECT_EQ(quit.exit_code, 0);
  EXPECT_EQ(quit.out, "");
  EXPECT_THAT(Minicpm(ChatWords(), "/help\n").out, HasSubstr("/image FILE"));
}

TEST(Chat, GoesOnWhereAFileEnds) {
  const test::TempDir dir;
  const std::string file = dir.File("talk.json");
  ASSERT_EQ(Minicpm(ChatWords(), "/image " + Data("images/rgb8.png") + "\nHello\n/save " + file + "\n").exit_code, 0);
  const json talk = Talk("And now?\n", {"--messages", file});
  ASSERT_EQ(talk.size(), 4u);
  EXPECT_EQ(talk[0]["content"][0]["image_url"]["url"], Data("images/rgb8.png"));
  const json asked = Talk("", {"-p", "First?", "--image", Data("images/rgb8.png")});
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0]["content"][1]["text"], "First?");
}

TEST(Chat, CannotStartWithoutItsFiles) {
  const Outcome outcome = Minicpm({"chat", "/no/such/model"}, "Hello\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("minicpm: "));
  EXPECT_EQ(Minicpm(ChatWords({"--messages", "/no/such.json"})).exit_code, 1);
  EXPECT_EQ(Minicpm(ChatWords({"--image", "/no/such.png"}), "Hello\n").exit_code, 1);
}

class EndlessChat : public ::testing::Test {
 protected:
  void SetUp() override { MakeEndlessModel(kV45, dir_.path()); }
  Words Endless() const {
    return {"chat", dir_.path(), "--temperature", "0", "--max-new-tokens", "1000000", "--context", "40000"};
  }
  std::string FirstWords() {
    const Outcome outcome =
        Minicpm({"run", dir_.path(), "-p", "Go on.", "--temperature", "0", "--max-new-tokens", "3", "-q"});
    return outcome.out.substr(0, outcome.out.size() - 1);
  }
  test::TempDir dir_;
};

TEST_F(EndlessChat, CtrlCStopsTheAnswerAndNotTheProgram) {
  const std::string begin = FirstWords();
  Child child(Endless());
  child.Write("Go on.\n");
  ASSERT_TRUE(child.WaitFor(begin));
  child.Signal(SIGINT);
  child.Write("/history\n");
  ASSERT_TRUE(child.WaitFor("user: Go on.\nassistant: " + begin));  // only a stopped answer lets the next line be read
  child.Write("/quit\n");
  const Outcome outcome = child.Finish();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: stopped\n"));
}

TEST_F(EndlessChat, TerminationLeavesAtOnce) {
  const std::string begin = FirstWords();
  Child child(Endless());
  child.Write("Go on.\n");
  ASSERT_TRUE(child.WaitFor(begin));
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Finish().exit_code, 1);
}

TEST(ChatOnATerminal, PromptsEditsAndLeaves) {
  if (!Child::HasTerminals()) GTEST_SKIP() << "no pseudo terminals here (is devpts mounted?)";
  Child child(ChatWords(), Child::Io::kTerminal);
  ASSERT_TRUE(child.WaitFor("Ctrl-D leaves"));
  ASSERT_TRUE(child.WaitFor("> "));
  child.Write("Hello\r");
  ASSERT_TRUE(child.WaitFor("tokens held"));  // the line after an answer
  ASSERT_TRUE(child.WaitFor("> "));
  child.Write("\x10\r");  // Ctrl-P: the line before
  ASSERT_TRUE(child.WaitFor("tokens held"));
  ASSERT_TRUE(child.WaitFor("> "));
  child.Write("half a li");
  ASSERT_TRUE(child.WaitFor("half a li"));
  child.Write("\x03");  // Ctrl-C drops the line
  ASSERT_TRUE(child.WaitFor("> "));
  child.Write("\x03");
  ASSERT_TRUE(child.WaitFor("/quit leaves"));
  ASSERT_TRUE(child.WaitFor("> "));
  child.Write("/history\r");
  ASSERT_TRUE(child.WaitFor("user: Hello"));
  ASSERT_TRUE(child.WaitFor("user: Hello"));
  ASSERT_TRUE(child.WaitFor("> "));
  child.Write("\x04");  // Ctrl-D
  const Outcome outcome = child.Finish();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, Not(HasSubstr("user: half")));
}

}  // namespace
}  // namespace minicpm::cli
