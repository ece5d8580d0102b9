// Broken sounds: cut off, with flipped bits, or with headers that promise anything. Each gives an error or samples
// within the limits, prints nothing and crashes nothing. Not for well-formed files: decode_test.cc.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "audio/audio.h"
#include "audio/test_sounds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace minicpm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr AudioLimits kSmall = {.max_bytes = 1 << 20, .max_seconds = 10};

// What the library must never do, on whatever input.
class Silent : public ::testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }  // where the codec libraries would print
  void TearDown() override { EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); }
};

void ExpectSane(const Result<Samples>& samples, const std::string& what) {
  if (samples.has_value()) {
    EXPECT_LE(samples->size(), static_cast<size_t>(10 * kAudioSampleRate + 1)) << what;
    for (const float sample : *samples) ASSERT_TRUE(std::isfinite(sample)) << what;
    return;
  }
  const ErrorCode code = samples.error().code;
  EXPECT_TRUE(code == ErrorCode::kCorrupt || code == ErrorCode::kUnsupported || code == ErrorCode::kResourceExhausted)
      << what << ": " << samples.error().message;
  EXPECT_THAT(samples.error().message, AllOf(HasSubstr("x: "), Not(HasSubstr("\n")))) << what;
  EXPECT_LT(samples.error().message.size(), 500u) << what;
}

std::vector<std::string> SmallFiles() {
  const Expected expected("samples.safetensors");
  std::vector<std::string> files = {"streamed.wav", "streamed_0.wav"};
  for (const auto& [file, view] : expected.views()) files.push_back(file);
  return files;
}

using Truncated = Silent;

// Every prefix of the smaller files, and many of the larger ones.
TEST_F(Truncated, GivesASentenceAtEveryLength) {
  for (const std::string& file : SmallFiles()) {
    const std::vector<std::byte> bytes = ReadTestSound(file);
    const bool must_fail = !file.starts_with("streamed") && !file.ends_with(".mp3");
    const bool slow = file.ends_with(".ogg") || file.ends_with(".opus");
    const size_t step = slow ? bytes.size() / 300 + 1 : bytes.size() / 3000 + 1;
    for (size_t n = 0; n < bytes.size(); n += (n < 200 || n + 40 > bytes.size() ? 1 : step)) {
      // An exact copy, so that a sanitizer sees any step outside.
      const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
      const Result<Samples> samples = DecodeAudio(prefix, "x", kSmall);
      const std::string what = file + " cut to " + std::to_string(n) + " of " + std::to_string(bytes.size());
      ExpectSane(samples, what);
      EXPECT_FALSE(must_fail && samples.has_value()) << what;
    }
  }
}

TEST_F(Truncated, WavNamesBothNumbers) {
  std::vector<std::byte> bytes = ReadTestSound("s16_16000.wav");
  bytes.resize(bytes.size() - 100);
  const Result<Samples> samples = DecodeAudio(bytes, "x");
  ASSERT_FALSE(samples.has_value());
  EXPECT_EQ(samples.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(samples.error().message,
            "x: broken WAV file: the file ends too early: its header promises 1920 bytes of samples, 1820 are there");
}

using Flipped = Silent;

TEST_F(Flipped, OneBitToManyBytes) {
  std::mt19937 random(20240501);
  for (const std::string& file : SmallFiles()) {
    const std::vector<std::byte> bytes = ReadTestSound(file);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> broken = bytes;
      const int n_changes = 1 << (round % 5);
      for (int i = 0; i < n_changes; ++i) {
        // Half of the changes hit the first 64 bytes, where the headers are.
        const size_t range = round % 2 == 0 ? broken.size() : std::min<size_t>(64, broken.size());
        std::byte& byte = broken[random() % range];
        byte = round % 3 == 0 ? static_cast<std::byte>(random()) : byte ^ std::byte{1} << random() % 8;
      }
      ExpectSane(DecodeAudio(broken, "x", kSmall), file + " round " + std::to_string(round));
    }
  }
}

TEST_F(Flipped, TwoFilesJoined) {
  const std::vector<std::byte> other = ReadTestSound("layer3_16000.mp3");
  for (const std::string& file : SmallFiles()) {
    std::vector<std::byte> bytes = ReadTestSound(file);
    bytes.resize(bytes.size() / 2);
    bytes.insert(bytes.end(), other.begin(), other.end());
    ExpectSane(DecodeAudio(bytes, "x", kSmall), file);
  }
}

void Put(std::vector<std::byte>& bytes, size_t at, uint64_t value, int n_bytes) {
  for (int i = 0; i < n_bytes; ++i) bytes.at(at + i) = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

class Headers : public Silent {
 protected:
  // A plain WAV: channels at 22, rate at 24, bytes of samples at 40, samples at 44.
  static std::vector<std::byte> Wav() { return ReadTestSound("s16_16000.wav"); }

  static void ExpectError(const std::vector<std::byte>& bytes, ErrorCode code, const std::string& part) {
    const Result<Samples> samples = DecodeAudio(bytes, "x");
    ASSERT_FALSE(samples.has_value()) << part;
    EXPECT_EQ(samples.error().code, code) << samples.error().message;
    EXPECT_THAT(samples.error().message, HasSubstr(part));
  }
};

TEST_F(Headers, RatesThatNoSoundHas) {
  std::vector<std::byte> bytes = Wav();
  Put(bytes, 24, 1, 4);
  ExpectError(bytes, ErrorCode::kCorrupt, "1 samples per second, 1000 to 768000 are possible");
  Put(bytes, 24, 800'000, 4);
  ExpectError(bytes, ErrorCode::kCorrupt, "800000 samples per second");
  for (const uint64_t rate : {uint64_t{0}, uint64_t{4'000'000'000}}) {
    Put(bytes, 24, rate, 4);
    ExpectError(bytes, ErrorCode::kCorrupt, "x: ");
  }
}

TEST_F(Headers, ManyChannels) {
  for (const uint64_t channels : {0, 65, 1024, 65535}) {
    std::vector<std::byte> bytes = Wav();
    Put(bytes, 22, channels, 2);
    Put(bytes, 32, channels * 2 & 0xffff, 2);
    ExpectError(bytes, ErrorCode::kCorrupt, "x: ");
  }
}

TEST_F(Headers, MoreSecondsThanTheLimit) {
  std::vector<std::byte> bytes = Wav();
  Put(bytes, 24, 1000, 4);  // 960 samples
  const Result<Samples> samples = DecodeAudio(bytes, "x", {.max_seconds = 0.5});
  ASSERT_FALSE(samples.has_value());
  EXPECT_EQ(samples.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(samples.error().message, "x: the sound has 0.96 seconds, the limit is 0.5");
}

// STREAMINFO keeps 36 bits: the lowest of the byte at 21, then 22 to 25.
TEST_F(Headers, AFlacThatPromisesMore) {
  std::vector<std::byte> bytes = ReadTestSound("s16_16000.flac");
  bytes.at(24) = std::byte{0x10};
  ExpectError(bytes, ErrorCode::kCorrupt, "the file ends too early: its header promises");
  bytes.at(21) |= std::byte{0x0f};
  ExpectError(bytes, ErrorCode::kResourceExhausted, "seconds, the limit is 3600");
}

// 0 stands for "not known".
TEST_F(Headers, AFlacWithoutLength) {
  std::vector<std::byte> bytes = ReadTestSound("s16_16000.flac");
  const Samples whole = DecodeAudio(bytes, "x").value();
  bytes.at(21) &= std::byte{0xf0};
  Put(bytes, 22, 0, 4);
  const Result<Samples> samples = DecodeAudio(bytes, "x");
  ASSERT_TRUE(samples.has_value()) << samples.error().message;
  EXPECT_EQ(*samples, whole);
}

TEST_F(Headers, AnOggThatClaimsToBeEndless) {
  std::vector<std::byte> bytes = ReadTestSound("vorbis_16000.ogg");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Put(bytes, text.rfind("OggS") + 6, uint64_t{1} << 46, 8);  // the number of the last sample
  ExpectSane(DecodeAudio(bytes, "x", kSmall), "position of the last page");
}

TEST_F(Headers, AnOggWithTwoStreams) {
  std::vector<std::byte> bytes = ReadTestSound("opus_16000.opus");
  const std::vector<std::byte> other = ReadTestSound("vorbis_16000.ogg");
  bytes.insert(bytes.end(), other.begin(), other.end());
  ExpectError(bytes, ErrorCode::kUnsupported, "several streams");
}

TEST_F(Headers, SamplesThatAreNoNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<std::byte> bytes = ReadTestSound("f32_16000.wav");
    std::memcpy(bytes.data() + bytes.size() - 400, &bad, sizeof bad);
    ExpectError(bytes, ErrorCode::kCorrupt, "infinite or not a number");
  }
}

TEST_F(Headers, SamplesTooLargeForTheResampler) {
  std::vector<std::byte> bytes = ReadTestSound("f32_16000.wav");
  const float huge = std::numeric_limits<float>::max();
  for (size_t at = bytes.size() - 2000; at < bytes.size(); at += 4) std::memcpy(bytes.data() + at, &huge, sizeof huge);
  ExpectSane(DecodeAudio(bytes, "x", kSmall), "as they are");
  Put(bytes, 24, 44100, 4);
  ExpectSane(DecodeAudio(bytes, "x", kSmall), "resampled");
}

// Must not reach the MP3 decoder inside of libsndfile, which prints.
TEST_F(Headers, AWavWithMp3Inside) {
  const std::vector<std::byte> mp3 = ReadTestSound("layer3_44100_2.mp3");
  std::vector<std::byte> bytes = Wav();
  bytes.resize(44);
  bytes.insert(bytes.end(), mp3.begin(), mp3.end() - 600);
  Put(bytes, 4, bytes.size() - 8, 4);
  Put(bytes, 40, bytes.size() - 44, 4);
  for (const uint64_t tag : {0x50, 0x55}) {
    Put(bytes, 20, tag, 2);
    ExpectSane(DecodeAudio(bytes, "x", kSmall), "tag " + std::to_string(tag));
  }
}

TEST_F(Headers, AnEmptyWavWithSomethingBehind) {
  std::vector<std::byte> bytes = Wav();
  bytes.resize(44 + 8 + 6);
  Put(bytes, 4, bytes.size() - 8, 4);
  Put(bytes, 40, 0, 4);
  std::memcpy(bytes.data() + 44, "LIST\6\0\0\0INFO", 12);
  const Result<Samples> samples = DecodeAudio(bytes, "x");
  ASSERT_TRUE(samples.has_value()) << samples.error().message;
  EXPECT_TRUE(samples->empty());
}

}  // namespace
}  // namespace minicpm
