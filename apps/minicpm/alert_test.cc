// Alerts: the regular expression, when the alarm is raised, and the command that it runs.
#include "alert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "alert_command.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool Matches(std::string_view pattern, std::string_view text) {
  const auto compiled = AlertPattern::Compile(pattern);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto found = compiled->Matches(text);
  EXPECT_TRUE(found.has_value()) << found.error().message;
  return found.value_or(false);
}

TEST(AlertPattern, IsSearchedForAnywhere) {
  EXPECT_TRUE(Matches("yes", "well, yes indeed"));
  EXPECT_FALSE(Matches("^yes", "well, yes"));
  EXPECT_FALSE(Matches("yes", "Yes"));
  EXPECT_TRUE(Matches("(?i)^yes\\b", "YES, below"));
  EXPECT_FALSE(Matches("(?i)\\byes\\b", "yesterday"));
  EXPECT_TRUE(Matches("(?i)^да", "ДА, слева"));
  EXPECT_TRUE(Matches("^有.缺陷", "有个缺陷"));
  EXPECT_TRUE(Matches("^(?!ok$)", "not ok"));
  EXPECT_FALSE(Matches("^(?!ok$)", "ok"));
  EXPECT_TRUE(Matches("a.b",
                      "a\xff"
                      "b"))
      << "broken bytes count as one character";
  EXPECT_TRUE(Matches("a\\x00b", std::string_view("a\0b", 3)));
}

TEST(AlertPattern, SaysWhereItIsWrong) {
  const auto open = AlertPattern::Compile("缺(陷");
  ASSERT_FALSE(open.has_value());
  EXPECT_EQ(open.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(open.error().message,
            "expected a regular expression, found an error at character 4 of \"缺(陷\": missing closing parenthesis");
  EXPECT_THAT(AlertPattern::Compile("a**").error().message, HasSubstr("character 3"));
  EXPECT_THAT(AlertPattern::Compile("").error().message, HasSubstr("found 0"));
  EXPECT_FALSE(AlertPattern::Compile(std::string(10'000, 'a')).has_value());
  EXPECT_FALSE(AlertPattern::Compile("\xff").has_value());
  EXPECT_FALSE(AlertPattern::Compile("\\C").has_value());
}

TEST(AlertPattern, AHopelessSearchEndsWithAnError) {
  const auto pattern = AlertPattern::Compile("^(a|aa)+$");
  ASSERT_TRUE(pattern.has_value());
  const auto found = pattern->Matches(std::string(5000, 'a') + "b");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kResourceExhausted);
}

TEST(AlertTrigger, RaisesTheAlarmWhenAlertsBegin) {
  AlertTrigger edge(false);
  std::vector<bool> raised;
  for (const bool alert : {false, true, true, false, false, true, false, true}) raised.push_back(edge.Update(alert));
  EXPECT_THAT(raised, ElementsAre(false, true, false, false, false, true, false, true));
}

TEST(AlertTrigger, OrAtEveryAlert) {
  AlertTrigger every(true);
  std::vector<bool> raised;
  for (const bool alert : {true, true, false, true}) raised.push_back(every.Update(alert));
  EXPECT_THAT(raised, ElementsAre(true, true, false, true));
}

class Warnings {
 public:
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      sentences_.push_back(sentence);
    };
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return sentences_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> sentences_;
};

AlertCommand::Options Options(const std::string& command, Warnings& warnings) {
  return {.command = command, .environment = {"PATH=/usr/bin:/bin", "HERE=x"}, .warn = warnings.sink()};
}

TEST(AlertCommand, GetsTheLineAndTheVariables) {
  const test::TempDir dir;
  Warnings warnings;
  {
    AlertCommand command(
        Options("cat >> " + dir.File("log") + "; echo \"$HERE $MINICPM_ALERT_TEXT\" >> " + dir.File("log"), warnings));
    command.Start({"{\"frame\":1}\n", {"MINICPM_ALERT_TEXT=one"}});
    command.Start({"{\"frame\":2}\n", {"MINICPM_ALERT_TEXT=two"}});
  }
  EXPECT_EQ(test::ReadFileBytes(dir.File("log")), "{\"frame\":1}\nx one\n{\"frame\":2}\nx two\n");
  EXPECT_THAT(warnings.all(), IsEmpty());
}

TEST(AlertCommand, AFailureIsAWarningAndTheNextOneRuns) {
  const test::TempDir dir;
  Warnings warnings;
  {
    AlertCommand command(Options("read n; echo ran >> " + dir.File("log") + "; exit $n", warnings));
    command.Start({"3\n", {}});
    command.Start({"0\n", {}});
  }
  EXPECT_EQ(test::ReadFileBytes(dir.File("log")), "ran\nran\n");
  EXPECT_THAT(warnings.all(), ElementsAre("--exec: the command failed: exit code 3"));
}

TEST(AlertCommand, ACommandThatDoesNotExistIsAWarning) {
  Warnings warnings;
  {
    AlertCommand command(Options("/nowhere/alarm 2> /dev/null", warnings));
    command.Start({});
  }
  EXPECT_THAT(warnings.all(), ElementsAre("--exec: the command failed: exit code 127"));
}

TEST(AlertCommand, OneThatHangsIsKilled) {
  Warnings warnings;
  AlertCommand::Options options = Options("sleep 1000", warnings);
  options.time_limit_s = 0.05;
  {
    AlertCommand command(options);
    command.Start({});
    while (command.n_ended() == 0) std::this_thread::yield();
  }
  EXPECT_THAT(warnings.all(), ElementsAre("--exec: the command failed: killed after 0.05 s"));
}

TEST(AlertCommand, TooManyAtOnceAreDroppedAndWhatWaitsAtTheEndToo) {
  Warnings warnings;
  AlertCommand::Options options = Options("sleep 1000", warnings);
  options.max_waiting = 2;
  options.time_limit_s = 1;
  {
    AlertCommand command(options);
    for (int i = 0; i < 4; ++i) command.Start({});
  }
  // One runs or waits, so one or two of the four were dropped at once; the others are killed or never start.
  EXPECT_THAT(warnings.all().front(), HasSubstr("2 alarms wait for it already; this one is dropped"));
  EXPECT_GE(warnings.all().size(), 3u);
}

TEST(AlertCommand, VariablesAreSuchAsAnEnvironmentCanHold) {
  EXPECT_EQ(EnvironmentVariable("A", std::string_view("x\0y", 3)), "A=xy");
  std::string text(32 * 1024 - 1, 'a');
  text += "é and more";
  EXPECT_EQ(EnvironmentVariable("A", text), "A=" + std::string(32 * 1024 - 1, 'a'));
}

}  // namespace
}  // namespace minicpm::cli
