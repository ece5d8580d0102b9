// The built program, `minicpm run` and the command line around it, on the bundled tiny models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli_test_process.h"
#include "tests/support/json_schema.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

const std::string kV45 = TinyModel("minicpm-v-4_5");

std::string Data(const std::string& name) { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/" + name; }

Words RunWords(const Words& more, const std::string& model = kV45) {
  Words words = {"run", model};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Runs with --json and checks what every such run must fulfil.
json RunJson(Words more, const std::string& model = kV45, std::string_view input = "") {
  more.push_back("--json");
  const Outcome outcome = Minicpm(RunWords(more, model), input);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(testing::ValidateText("run.schema.json", outcome.out), IsEmpty()) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  return json::parse(outcome.out, nullptr, false);
}

// A failure: nothing on stdout, one sentence on stderr.
void ExpectFailure(const Words& words, int exit_code, const ::testing::Matcher<std::string>& sentence) {
  const Outcome outcome = Minicpm(words);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("minicpm: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, sentence);
}

TEST(Program, HelpAndVersion) {
  const Outcome help = Minicpm({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* command : {"run", "chat", "inspect"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Outcome own = Minicpm({command, "--help"});
    EXPECT_EQ(own.exit_code, 0);
    EXPECT_EQ(own.err, "");
    EXPECT_THAT(own.out, HasSubstr("Examples:"));
    EXPECT_THAT(own.out, HasSubstr(std::string("minicpm ") + command));
  }
  const Outcome version = Minicpm({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, ::testing::MatchesRegex("minicpm [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Program, WrongUsageIsExitCode2) {
  EXPECT_EQ(Minicpm({}).exit_code, 2);
  ExpectFailure({"sing"}, 2, HasSubstr("unknown command \"sing\", expected one of run, chat, watch, inspect"));
  ExpectFailure({"--loud"}, 2, HasSubstr("unknown option \"--loud\""));
  for (const char* command : {"run", "chat", "inspect"}) {
    ExpectFailure({command}, 2, HasSubstr("MODEL is required"));
    ExpectFailure({command, kV45, "--loud"}, 2, HasSubstr("unknown option --loud"));
    ExpectFailure({command, kV45, "stray"}, 2, HasSubstr("unexpected argument stray"));
  }
  ExpectFailure(RunWords({}), 2, HasSubstr("expected -p TEXT, --audio FILE or --messages FILE"));
  ExpectFailure(RunWords({"-p", ""}), 2, HasSubstr("-p: expected a text"));
  ExpectFailure(RunWords({"-p", "x", "--messages", "m.json"}), 2, HasSubstr("cannot be combined"));
  ExpectFailure(RunWords({"-p", "x", "--video-packing", "7"}), 2,
                HasSubstr("--video-packing: expected a whole number"));
  ExpectFailure(RunWords({"-p", "x", "--max-video-seconds", "0"}), 2,
                HasSubstr("--max-video-seconds: expected a number"));
  ExpectFailure(RunWords({"-p", "x", "--audio", "a.wav"}), 1, HasSubstr("a.wav"));
  ExpectFailure(RunWords({"-p", "x", "--video", "a.mp4"}), 1, HasSubstr("a.mp4"));
  ExpectFailure(RunWords({"-p", "x", "--kv", "int4"}), 2, HasSubstr("--kv: expected f32, f16 or int8, found \"int4\""));
  ExpectFailure(RunWords({"-p", "x", "--engine", "onnxruntime"}), 2, HasSubstr("onnxruntime is not in this version"));
  ExpectFailure(RunWords({"-p", "x", "--top-p", "2"}), 2, HasSubstr("--top-p: expected a number from 0 to 1"));
  ExpectFailure(RunWords({"-p", "x", "--threads", "0"}), 2, HasSubstr("--threads: expected a whole number from 1"));
}

TEST(Program, WorkThatFailsIsExitCode1) {
  const test::TempDir dir;
  const std::string no_picture = dir.Write("note.png", "this is no picture");
  ExpectFailure(RunWords({"-p", "x"}, dir.File("nowhere")), 1, HasSubstr("nowhere"));
  ExpectFailure(RunWords({"-p", "x"}, dir.path()), 1, HasSubstr("config.json"));
  ExpectFailure(RunWords({"-p", "x", "--image", dir.File("none.jpg")}), 1, HasSubstr("none.jpg"));
  ExpectFailure(RunWords({"-p", "x", "--image", no_picture}), 1, HasSubstr("note.png"));
  ExpectFailure(RunWords({"--messages", dir.File("none.json")}), 1, HasSubstr("none.json"));
  ExpectFailure(RunWords({"--messages", dir.Write("bad.json", "[{]")}), 1, HasSubstr("bad.json: not valid JSON"));
  const std::string remote = dir.Write(
      "remote.json",
      R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}])");
  ExpectFailure(RunWords({"--messages", remote, "--json"}), 1, HasSubstr("nothing is fetched from the network"));
  ExpectFailure(RunWords({"-p", "a rather long question for so little room", "--context", "4"}), 1,
                HasSubstr("context"));
  ExpectFailure(RunWords({"-p", "-"}), 1, HasSubstr("stdin: expected a prompt, found nothing"));
  ExpectFailure(RunWords({"-p", "x", "--thinking", "on"}, TinyModel("minicpm-v-2_6")), 1, HasSubstr("thinking"));
}

TEST(Program, AFullDiskIsReported) {
  for (const Words& more : {Words(), Words{"--json"}}) {
    Words words = RunWords({"-p", "x", "--max-new-tokens", "4", "--temperature", "0", "--quiet"});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = Child(words, Child::Io::kFullDisk).Finish();
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err, "minicpm: stdout: the answer could not be written completely\n");
  }
  EXPECT_EQ(Child({"inspect", kV45}, Child::Io::kFullDisk).Finish().exit_code, 1);
  EXPECT_EQ(Child({"--help"}, Child::Io::kFullDisk).Finish().exit_code, 1);
  EXPECT_EQ(Child({"run", "--help"}, Child::Io::kFullDisk).Finish().exit_code, 1);
}

class RunOnEachFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(RunOnEachFamily, PictureAndQuestionGiveAValidReport) {
  const std::string model = TinyModel(GetParam());
  const json r = RunJson({"-p", "What is in the image?", "--image", Data("photos/coffee.jpg"), "--max-new-tokens", "12",
                          "--temperature", "0", "--threads", "2"},
                         model);
  EXPECT_EQ(r["model"]["family"], GetParam());
  EXPECT_EQ(r["model"]["engine"], "native");
  EXPECT_EQ(r["model"]["threads"], 2);
  EXPECT_THAT(r["model"]["weights_sha256"].get<std::string>(), ::testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(r["model"]["weights_sha256"].get<std::string>().size(), 64u);
  const json& usage = r["usage"];
  EXPECT_GT(usage["image_views"], 1);
  EXPECT_EQ(usage["image_tokens"], 64 * usage["image_views"].get<int>());
  EXPECT_GT(usage["prompt_tokens"], usage["image_tokens"]);
  EXPECT_EQ(usage["completion_tokens"], r["token_ids"].size());
  EXPECT_LE(r["token_ids"].size(), 12u);
  EXPECT_GT(r["token_ids"].size(), 0u);
  EXPECT_EQ(usage["cached_tokens"], 0);
  EXPECT_EQ(usage["audio_tokens"], 0);
  const json& t = r["timing_ms"];
  for (const char* key : {"load", "image_decode", "image_encode", "prefill", "first_token"})
    EXPECT_GT(t[key], 0.0) << key;
  EXPECT_GE(t["total"].get<double>(), t["load"].get<double>() + t["image_encode"].get<double>() +
                                          t["prefill"].get<double>() + t["decode"].get<double>());
  EXPECT_GE(t["first_token"].get<double>(), t["image_encode"].get<double>() + t["prefill"].get<double>());
  EXPECT_TRUE(r["seed"].is_number_unsigned());
}

TEST_P(RunOnEachFamily, PlainTextIsTheTextOfTheReport) {
  const std::string model = TinyModel(GetParam());
  const Words words = {"-p", "Tell me something.", "--max-new-tokens", "16", "--temperature", "0"};
  const json r = RunJson(words, model);
  const Outcome plain = Minicpm(RunWords(words, model));
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  const std::string text = r["text"];
  EXPECT_EQ(plain.out, text.ends_with('\n') ? text : text + "\n");
  EXPECT_EQ(r["usage"]["image_views"], 0);
}

INSTANTIATE_TEST_SUITE_P(Families, RunOnEachFamily,
                         ::testing::Values("minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"), [](const auto& suite) {
                           std::string name = suite.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Run, SameSeedSameAnswerForAnyThreadCount) {
  const Words words = {"-p", "Go on.", "--image", Data("images/rgb_420.jpg"), "--max-new-tokens", "24", "--seed", "7"};
  const auto with = [&words](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return RunJson(all);
  };
  const json first = with({"--threads", "1"});
  EXPECT_EQ(first["seed"], 7);
  EXPECT_EQ(with({"--threads", "1"})["token_ids"], first["token_ids"]);
  EXPECT_EQ(with({"--threads", "2"})["token_ids"], first["token_ids"]);
  EXPECT_EQ(with({"--threads", "3", "--pin"})["token_ids"], first["token_ids"]);
  EXPECT_NE(with({"--seed", "8"})["token_ids"], first["token_ids"]);
}

TEST(Run, AnUnseededAnswerCanBeRepeatedFromItsReport) {
  const Words words = {"-p", "Go on.", "--max-new-tokens", "24"};
  const json first = RunJson(words);
  Words again = words;
  again.insert(again.end(), {"--seed", std::to_string(first["seed"].get<uint64_t>())});
  EXPECT_EQ(RunJson(again)["token_ids"], first["token_ids"]);
}

TEST(Run, ScalarPathAnswers) {
  const json r = RunJson({"-p", "Hello", "--max-new-tokens", "4", "--temperature", "0", "--isa", "scalar"});
  EXPECT_EQ(r["model"]["isa"], "scalar");
}

TEST(Run, StopsBeforeAStopText) {
  const Words words = {"-p", "Go on.", "--max-new-tokens", "40", "--temperature", "0"};
  const std::string all = RunJson(words)["text"];
  ASSERT_GT(all.size(), 12u) << all;
  size_t cut = all.size() / 2;
  while (cut > 0 && (static_cast<unsigned char>(all[cut]) & 0xc0) == 0x80) --cut;
  size_t end = cut + 1;
  while (end < all.size() && (static_cast<unsigned char>(all[end]) & 0xc0) == 0x80) ++end;
  const std::string stop = all.substr(cut, end - cut);
  Words stopped = words;
  stopped.insert(stopped.end(), {"--stop", "never said", "--stop", stop});
  const json r = RunJson(stopped);
  EXPECT_EQ(r["finish_reason"], "stop");
  EXPECT_EQ(r["text"], all.substr(0, all.find(stop)));
}

TEST(Run, LimitsAreNamed) {
  const test::TempDir dir;
  MakeEndlessModel(kV45, dir.path());
  const Words words = {"-p", "Go on.", "--temperature", "0"};
  Words length = words;
  length.insert(length.end(), {"--max-new-tokens", "5"});
  json r = RunJson(length, dir.path());
  EXPECT_EQ(r["finish_reason"], "length");
  EXPECT_EQ(r["token_ids"].size(), 5u);
  EXPECT_THAT(Minicpm(RunWords(length, dir.path())).err, HasSubstr("cut after 5 tokens (--max-new-tokens)"));
  length.push_back("--quiet");
  EXPECT_EQ(Minicpm(RunWords(length, dir.path())).err, "");

  Words context = words;
  context.insert(context.end(), {"--context", "128"});
  r = RunJson(context, dir.path());
  EXPECT_EQ(r["finish_reason"], "context");
  EXPECT_LE(r["usage"]["prompt_tokens"].get<int>() + r["usage"]["completion_tokens"].get<int>(), 129);
  EXPECT_THAT(Minicpm(RunWords(context, dir.path())).err, HasSubstr("the context is full (--context)"));
}

TEST(Run, MaxSlicesOneIsTheOverviewOnly) {
  const Words words = {"-p", "x", "--image", Data("photos/coffee.jpg"), "--max-new-tokens", "1", "--temperature", "0"};
  Words one = words;
  one.insert(one.end(), {"--max-slices", "1"});
  EXPECT_EQ(RunJson(one)["usage"]["image_views"], 1);
  EXPECT_GT(RunJson(words)["usage"]["image_views"], 1);
}

TEST(Run, EveryPictureFormat) {
  // The same picture as PNG and without loss in other formats gives the same tokens.
  const auto tokens = [](const std::string& file) {
    return RunJson(
        {"-p", "What?", "--image", Data("images/" + file), "--max-new-tokens", "6", "--temperature", "0"})["token_ids"];
  };
  for (const char* file :
       {"rgb_420.jpg", "progressive.jpg", "exif_6.jpg", "cmyk.jpg", "rgb8.png", "palette8.png", "grey16.png",
        "rgba8.png", "lossy.webp", "lossless.webp", "plain.gif", "animated.gif", "rgb_lzw.tif", "rgb24.bmp"}) {
    EXPECT_THAT(tokens(file), Not(IsEmpty())) << file;
  }
  const json r = RunJson({"-p", "What?", "--image", Data("photos/rotated.jpg"), "--image", Data("images/rgb8.png"),
                          "--max-new-tokens", "2", "--temperature", "0"});
  EXPECT_GE(r["usage"]["image_views"], 2);
}

TEST(Run, PromptFromStdin) {
  const Words limits = {"--max-new-tokens", "8", "--temperature", "0"};
  Words direct = limits;
  direct.insert(direct.end(), {"-p", "What is\nthis?"});
  Words piped = limits;
  piped.insert(piped.end(), {"-p", "-"});
  EXPECT_EQ(RunJson(piped, kV45, "What is\nthis?\n")["token_ids"], RunJson(direct)["token_ids"]);
}

TEST(Run, MessagesAreTheSameQuestionInOtherWords) {
  const test::TempDir dir;
  const std::string bytes = test::ReadFileBytes(Data("images/rgb8.png"));
  dir.Write("sub/picture.png", bytes);
  const Words limits = {"--max-new-tokens", "8", "--temperature", "0"};
  const auto with = [&limits](const Words& more) {
    Words all = limits;
    all.insert(all.end(), more.begin(), more.end());
    return RunJson(all);
  };
  const json expected = with({"-p", "What is it?", "--image", dir.File("sub/picture.png"), "--system", "Be brief."});
  const auto message = [](const std::string& url) {
    return R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[)"
           R"({"type":"image_url","image_url":{"url":")" +
           url + R"("}},{"type":"text","text":"What is it?"}]}]})";
  };
  const json relative = with({"--messages", dir.Write("m1.json", message("sub/picture.png"))});
  EXPECT_EQ(relative["token_ids"], expected["token_ids"]);
  EXPECT_EQ(relative["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
  EXPECT_EQ(with({"--messages", dir.Write("m2.json", message("file://" + dir.File("sub/picture.png")))})["token_ids"],
            expected["token_ids"]);
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string base64;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (int k = 0; k < 4; ++k) {
      base64 += i + static_cast<size_t>(k) > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
    }
  }
  EXPECT_EQ(with({"--messages", dir.Write("m3.json", message("data:image/png;base64," + base64))})["token_ids"],
            expected["token_ids"]);
  // --system takes the place of the file's own.
  EXPECT_NE(with({"--messages", dir.File("m1.json"), "--system",
                  "Speak at length about everything."})["usage"]["prompt_tokens"],
            expected["usage"]["prompt_tokens"]);
}

TEST(Run, ReasoningIsKeptApart) {
  const test::TempDir dir;
  MakeEndlessModel(kV45, dir.path());  // starts inside <think> and never leaves it
  const Words words = {"-p", "Why?", "--thinking", "on", "--max-new-tokens", "12", "--temperature", "0"};
  const json r = RunJson(words, dir.path());
  EXPECT_NE(r["reasoning"], "");
  EXPECT_EQ(r["text"], "");
  const Outcome hidden = Minicpm(RunWords(words, dir.path()));
  EXPECT_EQ(hidden.out, "");
  Words shown = words;
  shown.push_back("--show-thinking");
  EXPECT_THAT(Minicpm(RunWords(shown, dir.path())).err, HasSubstr(r["reasoning"].get<std::string>()));
}

class Interrupted : public ::testing::Test {
 protected:
  void SetUp() override { MakeEndlessModel(kV45, dir_.path()); }
  Words Endless(const Words& more) {
    Words words = RunWords({"-p", "Go on.", "--temperature", "0", "--max-new-tokens", "1000000", "--context", "40000"},
                           dir_.path());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Something that the endless answer says soon.
  std::string FirstWords() {
    return RunJson({"-p", "Go on.", "--temperature", "0", "--max-new-tokens", "3"}, dir_.path())["text"];
  }
  test::TempDir dir_;
};

TEST_F(Interrupted, PrintsWhatThereIsAndFails) {
  const std::string begin = FirstWords();
  ASSERT_NE(begin, "");
  Child child(Endless({}));
  ASSERT_TRUE(child.WaitFor(begin));
  child.Signal(SIGINT);
  const Outcome outcome = child.Finish();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith(begin));
  EXPECT_THAT(outcome.out, EndsWith("\n"));
  EXPECT_THAT(outcome.err, HasSubstr("interrupted after"));
}

TEST_F(Interrupted, JsonSaysCancelled) {
  Child child(Endless({"--json", "--show-thinking"}), Child::Io::kTerminal);
  ASSERT_TRUE(child.WaitFor("reading the prompt"));  // progress: the model is open and at work
  child.Signal(SIGTERM);
  const Outcome outcome = child.Finish();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("\"finish_reason\":\"cancelled\""));
}

TEST(Terminal, ShowsOneLineForEachView) {
  Child child(RunWords({"-p", "x", "--image", Data("images/rgb8.png"), "--image", Data("photos/coffee.jpg"),
                        "--max-new-tokens", "2", "--temperature", "0"}),
              Child::Io::kTerminal);
  const Outcome outcome = child.Finish();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("image 1/2: view 1/1 encoded in "));
  EXPECT_THAT(outcome.out, HasSubstr("image 2/2: view 1/"));
  EXPECT_THAT(outcome.out, HasSubstr("image 2/2: view 2/"));
  EXPECT_THAT(outcome.out, HasSubstr("reading the prompt: "));
  Child quiet(
      RunWords({"-p", "x", "--image", Data("images/rgb8.png"), "--max-new-tokens", "2", "--temperature", "0", "-q"}),
      Child::Io::kTerminal);
  EXPECT_THAT(quiet.Finish().out, Not(HasSubstr("view")));
}

}  // namespace
}  // namespace minicpm::cli
