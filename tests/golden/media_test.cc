// Sound and video through prompts and sessions of the tiny models: where placeholders stand, that nothing depends on
// how the prompt is cut, that frames are read once and dropped, and that reused views change no answer. The towers'
// values are golden_test.cc's and audio_tower_test.cc's.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/session.h"
#include "gtest/gtest.h"
#include "tests/golden/fake_video.h"
#include "tests/golden/tiny_model.h"

namespace minicpm::test {
namespace {

using ::testing::HasSubstr;

Samples Tone(double seconds, double hertz) {
  Samples samples(static_cast<size_t>(std::lround(seconds * kAudioSampleRate)));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(0.4 * std::sin(2 * M_PI * hertz * static_cast<double>(i) / kAudioSampleRate));
  }
  return samples;
}

MessagePart Sound(double seconds, double hertz) {
  MessagePart part;
  part.audio = MakeAudioInput("tone.wav", Tone(seconds, hertz));
  return part;
}

MessagePart Video(std::shared_ptr<const VideoInput> video) {
  MessagePart part;
  part.video = std::move(video);
  return part;
}

Message Ask(std::vector<MessagePart> media, const std::string& text) {
  Message message;
  message.parts = std::move(media);
  if (!text.empty()) message.parts.push_back({text});
  return message;
}

Prompt Build(const TinyModel& m, const Message& message, const PromptOptions& options = {}) {
  auto prompt = m.engine->BuildPrompt({&message, 1}, options);
  EXPECT_TRUE(prompt.has_value()) << prompt.error().message;
  return prompt.has_value() ? *prompt : Prompt();
}

std::string Text(const TinyModel& m, const Prompt& prompt) {
  std::string text = m.engine->tokenizer().Decode(prompt.ids, false);
  // The fill tokens are many and all the same.
  for (size_t at; (at = text.find("<unk><unk>")) != std::string::npos;) text.erase(at, 5);
  return text;
}

TEST(MediaPrompt, EverySecondFrameOfV26IsAPictureOfItsOwn) {
  TinyModel m("minicpm-v-2_6", {.weights = DType::kBF16});
  const Prompt prompt = Build(m, Ask({Video(FakeVideo(56, 42, 31, 10))}, "What?"));
  EXPECT_EQ(prompt.media.size(), 4u);
  EXPECT_EQ(prompt.n_tokens(MediaKind::kFrames), 4 * 64);
  EXPECT_EQ(prompt.n_tokens(MediaKind::kPicture), 0);
  EXPECT_THAT(Text(m, prompt), HasSubstr("user\n<image><unk></image>\n<image><unk></image>\n<image><unk></image>\n"
                                         "<image><unk></image>\nWhat?<|im_end|>"));
}

TEST(MediaPrompt, GroupsOfV45ShareTheirTokens) {
  TinyModel m("minicpm-v-4_5", {.weights = DType::kBF16});
  PromptOptions options;
  options.video.packing = 3;
  const Prompt prompt = Build(m, Ask({Video(FakeVideo(56, 42, 50, 25))}, "What?"), options);
  ASSERT_EQ(prompt.media.size(), 2u);  // 6 frames
  EXPECT_EQ(prompt.media[0].frames.frames.size(), 3u);
  EXPECT_EQ(prompt.media[0].frames.temporal_ids.size(), 3u);
  EXPECT_EQ(prompt.n_views(), 6);
  EXPECT_EQ(prompt.n_tokens(MediaKind::kFrames), 2 * 64);
}

TEST(MediaPrompt, FramesAndSoundOfO45AlternateWithNothingBetween) {
  TinyModel m("minicpm-o-4_5", {.weights = DType::kBF16});
  const Prompt prompt = Build(m, Ask({Video(FakeVideo(56, 42, 20, 10, 2.0))}, "What?"));
  EXPECT_EQ(prompt.n_tokens(MediaKind::kSound), 20);
  const std::string unit = "<image><unk></image><|audio_start|><unk><|audio_end|>";
  EXPECT_THAT(Text(m, prompt), HasSubstr("user\n" + unit + unit + "What?<|im_end|>"));
  EXPECT_THAT(Text(m, prompt), ::testing::EndsWith("</think>\n\n<|tts_bos|>"));
}

TEST(MediaPrompt, ClipsOfOneMessageAreOneSoundDealtOutInOrder) {
  TinyModel m("minicpm-o-4_5", {.weights = DType::kBF16});
  // 1.05 s twice: 10 tokens each by themselves, 21 together.
  const Prompt prompt = Build(m, Ask({Sound(1.05, 300), Sound(1.05, 500)}, ""));
  ASSERT_EQ(prompt.media.size(), 1u);
  EXPECT_EQ(prompt.media[0].n_rows, 21);
  ASSERT_EQ(prompt.spans.size(), 2u);
  EXPECT_EQ(prompt.spans[0].row, 0);
  EXPECT_EQ(prompt.spans[0].n, 10);
  EXPECT_EQ(prompt.spans[1].row, 10);
  EXPECT_EQ(prompt.spans[1].n, 10);
  // 0.09 s is 9 mel frames, 5 encoder frames, 1 token; twice 18, 9, and still 1: the second has none left.
  const Prompt short_clips = Build(m, Ask({Sound(0.09, 300), Sound(0.09, 500)}, "Hm?"));
  EXPECT_EQ(short_clips.n_tokens(MediaKind::kSound), 1);
  EXPECT_THAT(Text(m, short_clips), HasSubstr("<|audio_start|><unk><|audio_end|>\n<|audio_start|><|audio_end|>\nHm?"));
}

TEST(MediaPrompt, ModelsThatDoNotHearSaySo) {
  TinyModel m("minicpm-v-4_5", {.weights = DType::kBF16});
  const Message message = Ask({Sound(1, 300)}, "");
  const auto prompt = m.engine->BuildPrompt({&message, 1}, {});
  ASSERT_FALSE(prompt.has_value());
  EXPECT_EQ(prompt.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(prompt.error().message, HasSubstr("does not hear"));
}

std::vector<int32_t> Answer(TinyModel& m, const Prompt& prompt, int64_t chunk) {
  const auto session = m.NewSession(2048, chunk);
  auto result = session->Generate(prompt, GreedyOptions(24));
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.has_value() ? result->token_ids : std::vector<int32_t>();
}

TEST(MediaSession, AnswersDoNotDependOnHowThePromptIsCut) {
  for (const std::string& family : TinyFamilies()) {
    TinyModel m(family, {.weights = DType::kBF16});
    const bool hears = m.engine->hears();
    const Message message = Ask({Video(FakeVideo(70, 56, 12, 10, hears ? 1.2 : 0))}, "What happens?");
    const Prompt prompt = Build(m, message);
    const std::vector<int32_t> whole = Answer(m, prompt, 0);
    EXPECT_EQ(Answer(m, prompt, 7), whole) << family;
    EXPECT_EQ(Answer(m, prompt, 100), whole) << family;
    // The frames matter: others give another answer.
    const Prompt other = Build(m, Ask({Video(FakeVideo(56, 70, 12, 10, hears ? 1.2 : 0))}, "What happens?"));
    EXPECT_NE(Answer(m, other, 0), whole) << family;
  }
}

TEST(MediaSession, SoundMatters) {
  TinyModel m("minicpm-o-4_5", {.weights = DType::kBF16});
  const std::vector<int32_t> low = Answer(m, Build(m, Ask({Sound(2, 300)}, "What is it?")), 0);
  const std::vector<int32_t> high = Answer(m, Build(m, Ask({Sound(2, 1500)}, "What is it?")), 0);
  EXPECT_NE(low, high);
  EXPECT_EQ(Answer(m, Build(m, Ask({Sound(2, 300)}, "What is it?")), 5), low);
}

TEST(MediaSession, FramesAreReadOnceInOrderAndNotAgainForAQuestionMore) {
  TinyModel m("minicpm-v-4_5", {.weights = DType::kBF16});
  const auto log = std::make_shared<FrameLog>();
  const auto video = FakeVideo(56, 42, 20, 10, 0, log);
  Message message = Ask({Video(video)}, "What happens?");
  const Prompt first = Build(m, message);
  const auto session = m.NewSession(2048, 64);
  ASSERT_TRUE(session->Generate(first, GreedyOptions(4)).has_value());
  FrameLog wanted;
  for (const PromptMedia& media : first.media) {
    wanted.insert(wanted.end(), media.frames.frames.begin(), media.frames.frames.end());
  }
  EXPECT_EQ(*log, wanted);

  const std::vector<Message> more = {message, {"assistant", {{"Nothing."}}, std::nullopt, {}}, Ask({}, "Really?")};
  auto second = m.engine->BuildPrompt(more, {});
  ASSERT_TRUE(second.has_value());
  auto result = session->Generate(*second, GreedyOptions(4));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*log, wanted) << "frames that the sequence holds were read again";
  EXPECT_GT(result->n_cached_tokens, first.n_tokens(MediaKind::kFrames));
}

TEST(MediaSession, BrokenFramesEndTheAnswerAndNotTheSession) {
  TinyModel m("minicpm-v-4_5", {.weights = DType::kBF16});
  auto broken = std::make_shared<VideoInput>(*FakeVideo(56, 42, 20, 10));
  broken->open = []() -> Result<std::unique_ptr<VideoReader>> {
    return Fail(ErrorCode::kCorrupt, "fake.y4m: frame 3 is cut off");
  };
  const auto session = m.NewSession(2048, 64);
  auto result = session->Generate(Build(m, Ask({Video(broken)}, "What?")), GreedyOptions(4));
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("frame 3"));
  const Prompt fine = Build(m, Ask({Video(FakeVideo(56, 42, 20, 10))}, "What?"));
  EXPECT_EQ(session->Generate(fine, GreedyOptions(8))->token_ids.size(), 8u);
}

MessagePart Picture(int moving) {
  Image image = FakeFrame(896, 896, 0);
  // One square of one slice changes.
  for (int y = 10; y < 30; ++y) {
    for (int x = 10; x < 30; ++x) image.rgb[static_cast<size_t>(3 * (y * 896 + x))] = static_cast<uint8_t>(moving);
  }
  MessagePart part;
  part.image = MakeImageInput("camera", std::move(image));
  return part;
}

TEST(ReusedViews, UnchangedSlicesAreNotEncodedAgainAndNoAnswerChanges) {
  TinyModel m("minicpm-v-4_5", {.weights = DType::kBF16});
  const auto reusing = Session::Create(m.engine, *m.backend, {.context = 2048, .reuse_views = true});
  ASSERT_TRUE(reusing.has_value());
  for (int i = 0; i < 4; ++i) {
    const Prompt prompt = Build(m, Ask({Picture(i / 2 * 100)}, "Is it broken?"));
    const auto expected = m.session->Generate(prompt, GreedyOptions(16));
    const auto result = (*reusing)->Generate(prompt, GreedyOptions(16));
    ASSERT_TRUE(expected.has_value() && result.has_value());
    EXPECT_EQ(result->token_ids, expected->token_ids) << i;
    EXPECT_EQ(expected->n_reused_views, 0);
    const int64_t n_views = prompt.n_views();
    ASSERT_EQ(n_views, 5);
    // 0: all new. 1 and 3: the very same picture, which the session holds. 2: overview and first slice changed.
    EXPECT_EQ(result->n_encoded_views, i == 0 ? n_views : i == 2 ? 2 : 0) << i;
    EXPECT_EQ(result->n_reused_views, i == 2 ? n_views - 2 : 0) << i;
  }
}

}  // namespace
}  // namespace minicpm::test
