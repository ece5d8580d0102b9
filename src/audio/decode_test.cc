// Sound files of every kind against samples that Python's soundfile and soxr packages made; the converter on its own.
// Not for broken files: hostile_test.cc.
#include <cmath>
#include <fstream>
#include <numbers>

#include "audio/audio.h"
#include "audio/test_sounds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

// Other versions of the decoders may round differently; resampled samples may differ by 1e-5.
double BoundFor(const std::string& file) {
  if (file.ends_with(".opus")) return 1e-3;  // libopus does not promise equal bits between versions
  return 1e-5;
}

double MaxDifference(std::span<const float> expected, std::span<const float> actual) {
  if (expected.size() != actual.size()) return 1e30;
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(expected[i]) - actual[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

TEST(DecodeAudio, EveryKindOfFile) {
  const Expected expected("samples.safetensors");
  EXPECT_EQ(expected.views().size(), 24u);
  for (const auto& [file, view] : expected.views()) {
    const std::vector<std::byte> bytes = ReadTestSound(file);
    EXPECT_TRUE(IsSoundFile(bytes)) << file;
    const Result<Samples> samples = DecodeAudio(bytes, "x");
    ASSERT_TRUE(samples.has_value()) << file << ": " << samples.error().message;
    EXPECT_EQ(samples->size(), expected.Floats(file).size()) << file;
    EXPECT_LE(MaxDifference(expected.Floats(file), *samples), BoundFor(file)) << file;
    const Result<Samples> loaded = LoadAudio(TestSoundPath(file));
    ASSERT_TRUE(loaded.has_value()) << file;
    EXPECT_EQ(*loaded, *samples) << file;
  }
}

TEST(DecodeAudio, StreamedWavIsReadToItsEnd) {
  const Samples whole = LoadAudio(TestSoundPath("s16_16000.wav")).value();
  for (const char* file : {"streamed.wav", "streamed_0.wav", "streamed_2g.wav"}) {
    const Result<Samples> samples = LoadAudio(TestSoundPath(file));
    ASSERT_TRUE(samples.has_value()) << file << ": " << samples.error().message;
    EXPECT_EQ(*samples, whole) << file;
  }
}

TEST(DecodeAudio, SixteenKilohertzMonoIsNotTouched) {
  const std::vector<std::byte> bytes = ReadTestSound("s16_16000.wav");
  const Samples samples = DecodeAudio(bytes, "x").value();
  ASSERT_EQ(samples.size() * 2 + 44, bytes.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const int low = static_cast<uint8_t>(bytes[44 + 2 * i]);
    const int high = static_cast<int8_t>(bytes[45 + 2 * i]);
    ASSERT_EQ(samples[i], static_cast<float>(high * 256 + low) / 32768) << i;
  }
}

TEST(DecodeAudio, NoSamplesAtAll) {
  for (const char* file : {"s16_16000.wav", "s16_8000.wav"}) {
    std::vector<std::byte> bytes = ReadTestSound(file);
    bytes.resize(44);
    for (size_t i = 40; i < 44; ++i) bytes[i] = std::byte{0};  // bytes of samples
    const Result<Samples> samples = DecodeAudio(bytes, "x");
    ASSERT_TRUE(samples.has_value()) << samples.error().message;
    EXPECT_TRUE(samples->empty());
  }
}

TEST(DecodeAudio, OtherContentIsNotSound) {
  const std::string_view others[] = {"",
                                     "RIFF",
                                     std::string_view("RIFF\0\0\0\0AVI LIST", 16),
                                     "\x89PNG\r\n\x1a\n",
                                     "\xff\xd8\xff\xe0",
                                     "\xff\xf1\x50\x80",  // AAC
                                     "YUV4MPEG2 W2 H2",
                                     "FORM\0\0\0\0AIFF",
                                     "just some text, no sound at all",
                                     std::string_view("\0\0\0\x18"
                                                      "ftypmp42",
                                                      12)};
  for (const std::string_view other : others) {
    const auto bytes = std::as_bytes(std::span(other));
    EXPECT_FALSE(IsSoundFile(bytes)) << Printable(other);
    const Result<Samples> samples = DecodeAudio(bytes, "x");
    ASSERT_FALSE(samples.has_value()) << Printable(other);
    EXPECT_THAT(samples.error().message,
                HasSubstr(other.empty() ? "x: the sound file is empty" : "x: not a WAV, FLAC"));
  }
}

TEST(DecodeAudio, LimitsWithBothNumbers) {
  const std::vector<std::byte> bytes = ReadTestSound("s16_8000.wav");
  const Result<Samples> big = DecodeAudio(bytes, "x", {.max_bytes = 1000});
  ASSERT_FALSE(big.has_value());
  EXPECT_EQ(big.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(big.error().message, "x: the sound file has 1644 bytes, the limit is 1000");
  const Result<Samples> big_file = LoadAudio(TestSoundPath("s16_8000.wav"), {.max_bytes = 1000});
  ASSERT_FALSE(big_file.has_value());
  EXPECT_THAT(big_file.error().message, HasSubstr("1644 bytes, the limit is 1000"));
  const Result<Samples> lasting = DecodeAudio(bytes, "x", {.max_seconds = 0.05});
  ASSERT_FALSE(lasting.has_value());
  EXPECT_EQ(lasting.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(lasting.error().message, "x: the sound has 0.1 seconds, the limit is 0.05");
  EXPECT_TRUE(DecodeAudio(bytes, "x", {.max_bytes = 1644, .max_seconds = 0.1}).has_value());
}

TEST(LoadAudioTest, NoFile) {
  const Result<Samples> missing = LoadAudio("/no/such/file.wav");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such/file.wav: cannot open the sound: "));
  EXPECT_FALSE(LoadAudio(MINICPM_SOURCE_DIR).has_value());
}

std::vector<float> Tone(int rate, int channels, int n_frames) {
  std::vector<float> samples;
  for (int i = 0; i < n_frames; ++i) {
    for (int c = 0; c < channels; ++c) {
      samples.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * (300 + 200 * c) * i / rate)));
    }
  }
  return samples;
}

Samples Convert(std::span<const float> samples, int rate, int channels, size_t frames_at_once) {
  SoundConverter converter = SoundConverter::Create(rate, channels, "x", {}).value();
  const size_t step = frames_at_once * channels;
  for (size_t begin = 0; begin < samples.size(); begin += step) {
    EXPECT_TRUE(converter.Push(samples.subspan(begin, std::min(step, samples.size() - begin))).has_value());
  }
  return converter.Finish().value();
}

TEST(SoundConverter, PiecesDoNotMatter) {
  for (const int rate : {8000, 11025, 16000, 44100, 48000, 96000}) {
    const std::vector<float> tone = Tone(rate, 2, rate);
    const Samples whole = Convert(tone, rate, 2, tone.size());
    EXPECT_NEAR(static_cast<double>(whole.size()), 16000, 1) << rate;
    for (const size_t step : {size_t{1}, size_t{999}, size_t{8193}}) {
      EXPECT_LE(MaxDifference(whole, Convert(tone, rate, 2, step)), 1e-6) << rate << ' ' << step;
    }
  }
}

TEST(SoundConverter, ChannelsAreAveraged) {
  const std::vector<float> six = Tone(16000, 6, 500);
  const Samples mono = Convert(six, 16000, 6, 500);
  ASSERT_EQ(mono.size(), 500u);
  for (size_t i = 0; i < mono.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < 6; ++c) sum += six[6 * i + c];
    ASSERT_EQ(mono[i], static_cast<float>(sum / 6));
  }
}

TEST(SoundConverter, KeepsATone) {
  const std::vector<float> tone = Tone(48000, 1, 48000);
  const std::vector<float> expected = Tone(16000, 1, 16000);
  const Samples samples = Convert(tone, 48000, 1, 4096);
  ASSERT_EQ(samples.size(), expected.size());
  // Away from the ends, where the sound begins and stops at once.
  EXPECT_LE(MaxDifference(std::span(expected).subspan(500, 15000), std::span(samples).subspan(500, 15000)), 1e-4);
}

TEST(SoundConverter, RefusesWhatNoSoundHas) {
  for (const int rate : {-1, 0, 1, 999, 768001, 2147483647}) {
    const auto converter = SoundConverter::Create(rate, 1, "x", {});
    ASSERT_FALSE(converter.has_value()) << rate;
    EXPECT_EQ(converter.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(converter.error().message, HasSubstr(std::to_string(rate) + " samples per second"));
  }
  for (const int channels : {-1, 0, 65, 1024}) {
    const auto converter = SoundConverter::Create(16000, channels, "x", {});
    ASSERT_FALSE(converter.has_value()) << channels;
    EXPECT_THAT(converter.error().message, HasSubstr(std::to_string(channels) + " channels"));
  }
}

TEST(SoundConverter, LimitsWhatIsPushed) {
  SoundConverter converter = SoundConverter::Create(8000, 1, "x", {.max_seconds = 0.5}).value();
  const std::vector<float> some(3000);
  EXPECT_TRUE(converter.Push(some).has_value());
  const Status second = converter.Push(some);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(second.error().message, "x: the sound has at least 0.75 seconds, the limit is 0.5");
}

// What is not wanted counts for no limit.
TEST(SoundConverter, KeepsTheBeginningOnly) {
  for (const int rate : {16000, 8000}) {
    SoundConverter converter = SoundConverter::Create(rate, 1, "x", {.max_seconds = 0.5, .keep_seconds = 0.25}).value();
    const std::vector<float> second(static_cast<size_t>(rate), 0.5f);
    EXPECT_TRUE(converter.Push(second).has_value());
    EXPECT_TRUE(converter.Push(second).has_value());
    EXPECT_EQ(converter.Finish().value().size(), 4000u);
  }
}

TEST(SoundConverter, RefusesNumbersThatAreNone) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int rate : {16000, 48000}) {
      SoundConverter converter = SoundConverter::Create(rate, 2, "x", {}).value();
      std::vector<float> samples(2000);
      samples[777] = bad;
      const Status pushed = converter.Push(samples);
      ASSERT_FALSE(pushed.has_value());
      EXPECT_EQ(pushed.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(pushed.error().message, HasSubstr("infinite or not a number"));
    }
  }
}

}  // namespace
}  // namespace minicpm
