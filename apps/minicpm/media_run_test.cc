// `minicpm run` and `chat` from outside with sound and video: counts, order, limits and refusals, on bundled models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli_test_process.h"
#include "tests/support/clip.h"
#include "tests/support/json_schema.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

const std::string kOmni = TinyModel("minicpm-o-4_5");
const std::string kV45 = TinyModel("minicpm-v-4_5");

std::string Data(const std::string& name) { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/" + name; }

json RunJson(const std::string& model, Words more) {
  Words words = {"run", model, "--json", "--temperature", "0", "--max-new-tokens", "8"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = Minicpm(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(testing::ValidateText("run.schema.json", outcome.out), IsEmpty()) << outcome.out;
  return json::parse(outcome.out, nullptr, false);
}

std::string FailureOf(const Words& words) {
  const Outcome outcome = Minicpm(words);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  return outcome.err;
}

std::string Clip(const test::TempDir& dir, int seconds) {
  EXPECT_TRUE(test::WriteClip(dir.File("clip.y4m"), {.width = 64, .height = 48, .n_frames = 5 * seconds, .fps = 5}));
  return dir.File("clip.y4m");
}

TEST(RunMedia, ASpokenQuestionNeedsNoText) {
  const json answer = RunJson(kOmni, {"--audio", Data("audio/cards_001.wav")});
  EXPECT_EQ(answer.at("usage").at("audio_tokens"), 11);  // 1.1 s
  EXPECT_EQ(answer.at("usage").at("image_tokens"), 0);
  EXPECT_GT(answer.at("timing_ms").at("audio_encode"), 0);
}

TEST(RunMedia, TheOrderOfTheCommandLineIsTheOrderOfThePrompt) {
  const std::string sound = Data("audio/cards_001.wav");
  const std::string picture = Data("golden/images/small.png");
  const json a = RunJson(kOmni, {"--audio", sound, "--image", picture, "-p", "Well?"});
  const json b = RunJson(kOmni, {"--image", picture, "--audio", sound, "-p", "Well?"});
  EXPECT_EQ(a.at("usage").at("prompt_tokens"), b.at("usage").at("prompt_tokens"));
  EXPECT_NE(a.at("token_ids"), b.at("token_ids"));
  const test::TempDir dir;
  const json messages = {{{"role", "user"},
                          {"content",
                           {{{"type", "audio_url"}, {"audio_url", {{"url", sound}}}},
                            {{"type", "image_url"}, {"image_url", {{"url", picture}}}},
                            {{"type", "text"}, {"text", "Well?"}}}}}};
  const json c = RunJson(kOmni, {"--messages", dir.Write("m.json", messages.dump())});
  EXPECT_EQ(c.at("token_ids"), a.at("token_ids"));
}

TEST(RunMedia, VideosOfEveryFamily) {
  const test::TempDir dir;
  const std::string clip = Clip(dir, 4);
  const json v26 = RunJson(TinyModel("minicpm-v-2_6"), {"--video", clip, "-p", "What happens?"});
  EXPECT_EQ(v26.at("usage").at("video_tokens"), 4 * 64);
  const json v45 = RunJson(kV45, {"--video", clip, "-p", "What happens?"});
  EXPECT_EQ(v45.at("usage").at("video_tokens"), 12 * 64);
  EXPECT_EQ(v45.at("usage").at("image_views"), 12);
  const json packed = RunJson(kV45, {"--video", clip, "-p", "What happens?", "--video-packing", "3"});
  EXPECT_EQ(packed.at("usage").at("video_tokens"), 4 * 64);
  EXPECT_EQ(packed.at("usage").at("image_views"), 12);
  const json start = RunJson(kV45, {"--video", clip, "-p", "What happens?", "--max-video-seconds", "2"});
  EXPECT_EQ(start.at("usage").at("video_tokens"), 6 * 64);
  const json omni = RunJson(kOmni, {"--video", clip, "-p", "What happens?"});
  EXPECT_EQ(omni.at("usage").at("video_tokens"), 4 * 64);
  EXPECT_EQ(omni.at("usage").at("audio_tokens"), 0);
}

TEST(RunMedia, RefusalsAreOneSentence) {
  const test::TempDir dir;
  EXPECT_THAT(FailureOf({"run", kV45, "--audio", Data("audio/cards_001.wav")}), HasSubstr("this model does not hear"));
  EXPECT_THAT(FailureOf({"run", kOmni, "--audio", Data("golden/images/small.png")}), HasSubstr("small.png"));
  EXPECT_THAT(FailureOf({"run", kV45, "-p", "x", "--video", Data("audio/cards_001.wav")}), HasSubstr("cards_001.wav"));
  // 12 frames do not fit: refused before anything is encoded.
  EXPECT_THAT(FailureOf({"run", kV45, "-p", "x", "--video", Clip(dir, 4), "--context", "512"}),
              HasSubstr("but the context holds 512"));
  EXPECT_THAT(FailureOf({"run", kOmni, "--audio", Data("audio/cards_005.wav"), "--max-audio-seconds", "1"}),
              HasSubstr("cards_005.wav"));
}

TEST(ChatMedia, SoundAndVideoGoWithTheNextMessage) {
  const test::TempDir dir;
  const std::string lines = "/video " + Clip(dir, 2) + "\n/audio " + Data("audio/cards_001.wav") +
                            "\nWhat is it?\nReally?\n/history\n/save " + dir.File("talk.json") + "\n";
  const Outcome outcome =
      Minicpm({"chat", kOmni, "--temperature", "0", "--max-new-tokens", "4", "--context", "1024"}, lines);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("a video of 2.0 s, 64 x 48"));
  EXPECT_THAT(outcome.err, HasSubstr("1.1 s of sound"));
  EXPECT_THAT(outcome.out, HasSubstr("[video " + dir.File("clip.y4m") + "] [sound "));
  const json saved = json::parse(test::ReadFileBytes(dir.File("talk.json")), nullptr, false);
  EXPECT_EQ(saved.at("messages").at(0).at("content").at(0).at("video_url").at("url"), dir.File("clip.y4m"));
}

}  // namespace
}  // namespace minicpm::cli
