// Log-mel frames against reference/mel.py, which was compared with transformers' WhisperFeatureExtractor; whole pieces
// and streamed chunks. Not for decoding sound: decode_test.cc.
#include "audio/log_mel.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "audio/audio.h"
#include "audio/mel_stream.h"
#include "audio/test_sounds.h"
#include "gtest/gtest.h"

namespace minicpm {
namespace {

constexpr int64_t kMels = 80;
constexpr double kBound = 1e-6;  // 1e-5 is what the product promises

std::vector<float> FramesOf(std::span<const float> samples) {
  const int64_t rows = MelFrames(static_cast<int64_t>(samples.size()));
  std::vector<float> out(rows * kMels, std::numeric_limits<float>::quiet_NaN());
  LogMel(kMels).Compute(samples, Matrix(out.data(), rows, kMels));
  return out;
}

ConstMatrix AsMatrix(const std::vector<float>& frames) {
  return {frames.data(), static_cast<int64_t>(frames.size()) / kMels, kMels};
}

Samples Speech() { return LoadAudio(TestSoundPath("cards_005.wav")).value(); }

class LogMelTest : public ::testing::Test {
 protected:
  // Every piece of the clip.
  void ExpectEqual(const std::string& name, std::span<const float> samples) {
    int64_t piece = 0;
    for (size_t begin = 0; begin < samples.size(); begin += kAudioPieceSamples, ++piece) {
      const size_t n = std::min<size_t>(kAudioPieceSamples, samples.size() - begin);
      const std::vector<float> frames = FramesOf(samples.subspan(begin, n));
      const std::string key = name + "@" + std::to_string(piece);
      EXPECT_LE(expected_.MaxDifference(key, AsMatrix(frames)), kBound) << key;
    }
  }

  const Expected expected_{"mel.safetensors"};
};

TEST_F(LogMelTest, SpeechEveryFrame) {
  EXPECT_LE(expected_.MaxDifference("cards_005", AsMatrix(FramesOf(Speech()))), kBound);
  const Samples other = LoadAudio(TestSoundPath("cards_001.wav")).value();
  EXPECT_LE(expected_.MaxDifference("cards_001", AsMatrix(FramesOf(other))), kBound);
}

TEST_F(LogMelTest, ShortClips) {
  for (const int64_t n : {1, 79, 799, 800, 1600, 16000}) ExpectEqual("noise." + std::to_string(n), TestNoise(n));
  EXPECT_TRUE(FramesOf({}).empty());
}

TEST_F(LogMelTest, AroundThirtySeconds) {
  const Samples speech = Speech();
  for (const int64_t n : {479999, 480000, 480001}) ExpectEqual("speech." + std::to_string(n), Tiled(speech, n));
}

TEST_F(LogMelTest, ExtremeLevels) {
  const std::vector<float> silence(8000);
  ExpectEqual("silence.8000", silence);
  for (const float value : FramesOf(silence)) ASSERT_EQ(value, -1.5f);
  Samples clipped = Speech();
  for (float& sample : clipped) sample = std::clamp(sample * 8, -1.0f, 1.0f);
  ExpectEqual("clipped", clipped);
  Samples loud = Speech();
  for (float& sample : loud) sample *= 1000;
  ExpectEqual("loud", loud);
}

// Far from the tone there is nothing but rounding of the samples: float arithmetic would show here.
TEST_F(LogMelTest, ATone) {
  std::vector<float> tone(16000);
  for (size_t i = 0; i < tone.size(); ++i) {
    const double angle = 2 * std::numbers::pi * 440 / 16000 * static_cast<double>(i);
    tone[i] = static_cast<float>(std::nearbyint(20000 * std::sin(angle))) / 32768;
  }
  ExpectEqual("tone.16000", tone);
}

// The frame with the maximum is one of the padding's: it sets the floor though it is cut away.
TEST_F(LogMelTest, LoudestFrameIsCutAway) {
  std::vector<float> late = TestNoise(1600);
  for (float& sample : late) sample *= 1.0f / 4096;
  late.back() = 1;
  ExpectEqual("late.1600", late);
}

TEST_F(LogMelTest, OneExtractorManyClips) {
  LogMel log_mel(kMels);
  const Samples speech = Speech();
  std::vector<float> first(MelFrames(16000) * kMels);
  std::vector<float> again(first.size());
  std::vector<float> other(MelFrames(480000) * kMels);
  const Matrix rows(first.data(), MelFrames(16000), kMels);
  log_mel.Compute(std::span(speech).first(16000), rows);
  log_mel.Compute(TestNoise(480000), Matrix(other.data(), 3000, kMels));
  log_mel.Compute(std::span(speech).first(16000), Matrix(again.data(), rows.rows, kMels));
  EXPECT_EQ(first, again);
}

TEST_F(LogMelTest, OtherNumbersOfBinsAndWiderRows) {
  const std::vector<float> noise = TestNoise(800);
  LogMel log_mel(128);
  EXPECT_EQ(log_mel.n_mels(), 128);
  std::vector<float> wide(5 * 130, 7.0f);
  log_mel.Compute(noise, Matrix(wide.data(), 5, 128, 130));
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_EQ(wide[row * 130 + 128], 7.0f);
    EXPECT_NE(wide[row * 130 + 127], 7.0f);
  }
}

class MelStreamTest : public LogMelTest, public ::testing::WithParamInterface<MelStream::Mode> {
 protected:
  static constexpr size_t kSecond = kAudioSampleRate;

  std::string mode() const { return GetParam() == MelStream::Mode::kDuplex ? "duplex" : "half"; }

  // 33 s of speech, then 0.375 s of noise: drops sound twice, ends with a short chunk.
  static std::vector<float> Sound() {
    std::vector<float> sound = Tiled(Speech(), 33 * kSecond);
    for (float& sample : sound) sample *= 0.5f;
    const std::vector<float> noise = TestNoise(6000);
    sound.insert(sound.end(), noise.begin(), noise.end());
    return sound;
  }

  // Pushes the first `first` samples, then pieces of `step`, asking for chunks after each.
  std::vector<MelStream::Chunk> Run(std::span<const float> sound, size_t first, size_t step) const {
    MelStream stream(GetParam(), kMels);
    std::vector<MelStream::Chunk> chunks;
    for (size_t begin = 0; begin < sound.size();) {
      const size_t n = std::min(begin == 0 ? first : step, sound.size() - begin);
      stream.Push(sound.subspan(begin, n));
      begin += n;
      while (auto chunk = stream.Next()) chunks.push_back(*chunk);
    }
    if (auto chunk = stream.Finish()) chunks.push_back(*chunk);
    return chunks;
  }
};

TEST_P(MelStreamTest, ChunksOfTheReference) {
  const std::vector<MelStream::Chunk> chunks = Run(Sound(), kSecond, kSecond);
  ASSERT_EQ(chunks.size(), 34u);
  int n_compared = 0;
  for (size_t k = 0; k < chunks.size(); ++k) {
    const std::string key = mode() + "." + std::to_string(k);
    if (!expected_.views().contains(key)) continue;
    ++n_compared;
    EXPECT_LE(expected_.MaxDifference(key, AsMatrix(chunks[k].frames)), kBound) << key;
    EXPECT_EQ(chunks[k].prefix, expected_.Ints(key + "#prefix")[0]) << key;
    EXPECT_EQ(static_cast<size_t>(chunks[k].n_frames * kMels), chunks[k].frames.size());
  }
  EXPECT_EQ(n_compared, 11);
}

TEST_P(MelStreamTest, ContextOnBothSides) {
  const int64_t context = GetParam() == MelStream::Mode::kDuplex ? 2 : 0;
  const std::vector<MelStream::Chunk> chunks = Run(Sound(), kSecond, kSecond);
  for (size_t k = 0; k + 1 < chunks.size(); ++k) {
    EXPECT_EQ(chunks[k].prefix, k == 0 ? 0 : context);
    EXPECT_EQ(chunks[k].suffix, context);
    EXPECT_EQ(chunks[k].n_frames, 100 + chunks[k].prefix + context);
  }
  EXPECT_EQ(chunks.back().prefix, context);
  EXPECT_EQ(chunks.back().suffix, 0);
}

TEST_P(MelStreamTest, PiecesOfTheSoundDoNotMatter) {
  const std::vector<float> sound = Sound();
  const std::vector<MelStream::Chunk> expected = Run(sound, 16560, kSecond);
  for (const size_t step : {size_t{777}, size_t{40000}, sound.size()}) {
    const std::vector<MelStream::Chunk> chunks = Run(sound, 16560, step);
    ASSERT_EQ(chunks.size(), expected.size()) << step;
    for (size_t k = 0; k < chunks.size(); ++k) EXPECT_EQ(chunks[k].frames, expected[k].frames) << step << ' ' << k;
  }
}

TEST_P(MelStreamTest, ShortBeginningIsPaddedInFront) {
  const std::vector<float> noise = TestNoise(500);
  std::vector<float> padded(16560);
  std::copy(noise.begin(), noise.end(), padded.end() - 500);
  MelStream one(GetParam(), kMels);
  MelStream other(GetParam(), kMels);
  EXPECT_FALSE(one.Next().has_value());  // nothing is not padded
  one.Push(noise);
  other.Push(padded);
  const auto chunk = one.Next();
  ASSERT_TRUE(chunk.has_value());
  EXPECT_EQ(chunk->frames, other.Next()->frames);
  EXPECT_FALSE(one.Next().has_value());
}

TEST_P(MelStreamTest, NothingGivesNothing) {
  MelStream stream(GetParam(), kMels);
  EXPECT_FALSE(stream.Next().has_value());
  EXPECT_FALSE(stream.Finish().has_value());
}

INSTANTIATE_TEST_SUITE_P(Modes, MelStreamTest,
                         ::testing::Values(MelStream::Mode::kHalfDuplex, MelStream::Mode::kDuplex));

}  // namespace
}  // namespace minicpm
