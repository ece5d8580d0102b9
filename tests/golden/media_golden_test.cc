// Golden tests with sound and video: whole prompts of the tiny models against the float64 reference, stage by stage and
// token by token. Written by reference/dump.py; pictures and text are golden_test.cc's.
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "os/mapped_file.h"
#include "tests/golden/fake_video.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/stage_recorder.h"
#include "tests/golden/tiny_model.h"

namespace minicpm::test {
namespace {

constexpr double kTolerance = 1e-4;

struct Case {
  std::string family;
  std::string name;
  DType weights;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::string& family : TinyFamilies()) cases.push_back({family, "video", dtype});
    for (const char* name : {"speech", "picture_and_speech", "two_clips"}) {
      cases.push_back({"minicpm-o-4_5", name, dtype});
    }
  }
  return cases;
}

class MediaGolden : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, MediaGolden, testing::ValuesIn(AllCases()), [](const auto& param) {
  std::string s = param.param.family + "_" + param.param.name + "_" + NameOf(param.param.weights);
  for (char& c : s) c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return s;
});

Samples LoadClip(const std::string& path) {
  auto samples = LoadAudio(path);
  EXPECT_TRUE(samples.has_value()) << samples.error().message;
  return samples.value_or(Samples());
}

struct Expected {
  Message message;
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> token_ids;
  std::string folder;
};

Expected ReadVideoCase(const std::string& family) {
  Expected e;
  const std::string data = std::string(MINICPM_SOURCE_DIR) + "/tests/data/golden/";
  e.folder = data + family + "/video";
  const auto text = ReadWholeFile(e.folder + "/case.json", 1 << 20);
  EXPECT_TRUE(text.has_value());
  const auto json = nlohmann::json::parse(*text);
  auto video = std::make_shared<VideoInput>(
      *FakeVideo(json.at("width"), json.at("height"), json.at("frames"), json.at("fps").get<double>()));
  if (json.contains("sound")) {
    Samples samples = LoadClip(data + json.at("sound").get<std::string>());
    samples.resize(json.at("samples").get<size_t>());
    video->info.has_sound = true;
    video->sound = MakeAudioInput("sound", std::move(samples));
  }
  MessagePart part;
  part.video = video;
  e.message.parts = {part, {json.at("prompt").get<std::string>()}};
  e.prompt_ids = json.at("prompt_ids").get<std::vector<int32_t>>();
  e.token_ids = json.at("token_ids").get<std::vector<int32_t>>();
  return e;
}

Expected ReadClipCase(const std::string& family, const std::string& name) {
  const GoldenCase golden = ReadGoldenCase(family, name);
  Expected e{{}, golden.prompt_ids, golden.token_ids, golden.folder};
  for (const std::string& path : golden.images) {
    MessagePart part;
    auto image = LoadImageInput(path);
    EXPECT_TRUE(image.has_value());
    part.image = *image;
    e.message.parts.push_back(part);
  }
  for (const GoldenCase::Sound& sound : golden.sounds) {
    MessagePart part;
    part.audio = MakeAudioInput(sound.path, LoadClip(sound.path));
    e.message.parts.push_back(part);
  }
  if (!golden.prompt.empty()) e.message.parts.push_back({golden.prompt});
  return e;
}

TEST_P(MediaGolden, EveryStageAndEveryToken) {
  const Case& param = GetParam();
  TinyModel m(param.family, {.weights = param.weights, .prefill_chunk = 0});
  ASSERT_TRUE(m.ok());
  const bool video = param.name == "video";
  const Expected expected = video ? ReadVideoCase(param.family) : ReadClipCase(param.family, param.name);
  PromptOptions options;
  // The dump packs three frames where the model packs at all.
  if (param.family == "minicpm-v-4_5") options.video.packing = 3;
  const auto prompt = m.engine->BuildPrompt({&expected.message, 1}, options);
  ASSERT_TRUE(prompt.has_value()) << prompt.error().message;
  ASSERT_EQ(prompt->ids, expected.prompt_ids);

  Recorder recorder;
  m.backend->set_tap(&recorder);
  ASSERT_TRUE(m.session->Feed(*prompt, nullptr, nullptr).value());
  m.backend->set_tap(nullptr);
  EXPECT_GE(CompareStages(GoldenStages(expected.folder), recorder, kTolerance), 8);

  const auto result = m.session->Generate(*prompt, GreedyOptions(static_cast<int64_t>(expected.token_ids.size())));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->token_ids, expected.token_ids);
}

}  // namespace
}  // namespace minicpm::test
