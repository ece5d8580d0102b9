// The audio tower against the float64 reference: clips, long clips and live sound, for every weight type. From
// committed recordings to the language model's rows; prompts with sound are golden_test.cc's.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "audio/audio.h"
#include "audio/log_mel.h"
#include "audio/mel_stream.h"
#include "backends/native/native_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "os/clock.h"
#include "os/mapped_file.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/stage_recorder.h"
#include "tests/support/expand_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace minicpm::test {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-4;
constexpr const char* kFamily = "minicpm-o-4_5";
constexpr double kNever = 1e18;

std::string Data() { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/"; }
std::string CaseFolder(const std::string& name) { return Data() + "golden/" + kFamily + "/" + name; }

template <class T>
T Must(Result<T> result) {
  if (!result.has_value()) ADD_FAILURE() << result.error().message;
  return std::move(result).value();
}

struct Variant {
  DType weights;
  std::string isa;
};

// The tiny o 4.5 with another length of the position table, its tower and a Compute.
class Ear {
 public:
  explicit Ear(const Variant& variant, int64_t n_positions = 1500, int n_threads = 2) {
    std::string folder = std::string(MINICPM_SOURCE_DIR) + "/models/tiny/" + kFamily;
    if (variant.weights != DType::kBF16) {
      EXPECT_TRUE(ExpandCheckpoint(folder, dir_.path(), variant.weights).has_value());
      folder = dir_.path();
    }
    ModelConfig config = Must(ReadModelConfig(folder));
    model_ = Must(NativeModel::Load(config, std::make_shared<const Checkpoint>(Must(Checkpoint::Open(folder)))));
    audio = *config.audio;
    audio.n_positions = n_positions;
    n_embed = config.decoder.n_embed;
    NativeBackendOptions options;
    options.n_threads = n_threads;
    options.isa = variant.isa;
    options.kv_tokens = 64;
    backend = Must(NewNativeBackend(model_, options));
    compute = Must(Compute::Create({.n_threads = n_threads, .isa = variant.isa}));
  }

  // Through the backend. Adds rows to `rows`.
  void Hear(const AudioRequest& request) {
    AudioRequest r = request;
    std::vector<float> out(static_cast<size_t>(Rows(r) * n_embed));
    r.out = Matrix(out.data(), Rows(r), n_embed);
    auto job = Must(backend->BeginAudio(r));
    EXPECT_TRUE(Must(job->Step(kNever)));
    rows.insert(rows.end(), out.begin(), out.end());
  }
  int64_t Rows(const AudioRequest& r) const {
    return audio.n_rows(AudioConfig::n_frames(r.mel.rows) - (r.prefix_frames + 1) / 2 - (r.suffix_frames + 1) / 2);
  }
  // Through the tower itself, with this Ear's position table.
  void HearDirectly(WhisperRun::Input input, Tap* tap) {
    compute->set_tap(tap);
    WhisperRun run(audio, model_->audio(), input);
    while (!run.Step(*compute)) compute->arena().Reset();
    const int64_t n = audio.n_rows(run.output().rows);
    std::vector<float> out(static_cast<size_t>(n * n_embed));
    const Matrix pooled(out.data(), n, n_embed);
    ProjectAudio(*compute, audio, model_->audio_projector(), run.output(), pooled);
    if (n > 0) Report(*compute, {"aud.pool", -1, input.item}, pooled);
  }

  AudioConfig audio;
  int64_t n_embed = 0;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Compute> compute;
  std::vector<float> rows;

 private:
  TempDir dir_;
  std::shared_ptr<const NativeModel> model_;
};

struct Mel {
  std::vector<float> values;
  int64_t n = 0;
  ConstMatrix view() const { return ConstMatrix(values.data(), n, 80); }
};

Mel MelOf(std::span<const float> samples) {
  Mel mel;
  mel.n = MelFrames(static_cast<int64_t>(samples.size()));
  mel.values.resize(static_cast<size_t>(mel.n * 80));
  LogMel(80).Compute(samples, Matrix(mel.values.data(), mel.n, 80));
  return mel;
}

// The case's recordings after one another, again and again, until there are n samples.
Samples Repeat(const nlohmann::json& json) {
  Samples one;
  for (const auto& name : json.at("sounds")) {
    const Samples next = Must(LoadAudio(Data() + "audio/" + name.get<std::string>() + ".wav"));
    one.insert(one.end(), next.begin(), next.end());
  }
  Samples all;
  const size_t n = json.at("samples");
  while (all.size() < n) all.insert(all.end(), one.begin(), one.begin() + std::min(one.size(), n - all.size()));
  return all;
}

nlohmann::json ReadCase(const std::string& name) {
  return nlohmann::json::parse(Must(ReadWholeFile(CaseFolder(name) + "/case.json", 1 << 20)));
}

class AudioTower : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(All, AudioTower,
                         testing::Values(Variant{DType::kF32, ""}, Variant{DType::kF16, ""}, Variant{DType::kBF16, ""},
                                         Variant{DType::kBF16, "scalar"}),
                         [](const auto& param) { return NameOf(param.param.weights) + param.param.isa; });

TEST_P(AudioTower, EveryStageOfEveryClip) {
  Ear ear(GetParam());
  ASSERT_TRUE(ear.backend->caps().audio);
  ASSERT_EQ(ear.backend->shape().n_mels, 80);
  for (const char* name : {"speech", "picture_and_speech", "two_clips"}) {
    const GoldenCase golden = ReadGoldenCase(kFamily, name);
    Recorder recorder;
    ear.backend->set_tap(&recorder);
    Samples all;  // the clips of one message are one sound
    int64_t n_rows = 0;
    for (const GoldenCase::Sound& sound : golden.sounds) {
      const Samples clip = Must(LoadAudio(sound.path));
      all.insert(all.end(), clip.begin(), clip.end());
      n_rows += sound.rows;
    }
    const Mel mel = MelOf(all);
    AudioRequest request;
    request.mel = mel.view();
    EXPECT_GE(ear.Rows(request), n_rows);
    ear.Hear(request);
    // Convolutions, two layers, norm, rows.
    EXPECT_EQ(CompareStages(GoldenStages(golden.folder), recorder, kTolerance, "aud."), 5) << name;
  }
}

// The first piece's frames come from exactly 30 s of sound; the whole mask, and pieces of work cut at 256 rows.
TEST_P(AudioTower, TwoPiecesOfALongClip) {
  Ear ear(GetParam());
  const auto json = ReadCase("long_clip");
  const Samples samples = Repeat(json);
  Recorder recorder;
  ear.backend->set_tap(&recorder);
  for (int i = 0; i < 2; ++i) {
    const size_t begin = static_cast<size_t>(i * kAudioPieceSamples);
    const size_t n = std::min(static_cast<size_t>(kAudioPieceSamples), samples.size() - begin);
    const Mel mel = MelOf(std::span(samples).subspan(begin, n));
    AudioRequest request;
    request.mel = mel.view();
    request.item = i;
    ear.Hear(request);
  }
  EXPECT_EQ(static_cast<int64_t>(ear.rows.size()), json.at("rows").get<int64_t>() * ear.n_embed);
  EXPECT_EQ(CompareStages(GoldenStages(CaseFolder("long_clip")), recorder, kTolerance), 10);
}

std::vector<MelStream::Chunk> Chunks(const nlohmann::json& json) {
  MelStream stream(json.at("duplex") ? MelStream::Mode::kDuplex : MelStream::Mode::kHalfDuplex, 80);
  std::vector<MelStream::Chunk> chunks;
  const Samples samples = Repeat(json);
  for (size_t at = 0; at < samples.size(); at += kAudioSampleRate) {  // second by second, as it is heard
    stream.Push(std::span(samples).subspan(at, std::min<size_t>(kAudioSampleRate, samples.size() - at)));
    while (auto chunk = stream.Next()) chunks.push_back(std::move(*chunk));
  }
  while (auto chunk = stream.Finish()) chunks.push_back(std::move(*chunk));
  return chunks;
}

TEST_P(AudioTower, LiveSound) {
  for (const char* name : {"stream_half_duplex", "stream_duplex", "stream_half_duplex_restart", "stream_duplex_restart",
                           "stream_half_duplex_full"}) {
    SCOPED_TRACE(name);
    const auto json = ReadCase(name);
    Ear ear(GetParam(), json.at("n_positions"));
    const std::vector<MelStream::Chunk> chunks = Chunks(json);
    ASSERT_EQ(chunks.size(), json.at("chunks").size());
    WhisperCache cache(ear.audio);
    Recorder recorder;
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto& expected = json.at("chunks")[i];
      const MelStream::Chunk& chunk = chunks[i];
      ASSERT_EQ(chunk.n_frames, expected.at("frames"));
      ASSERT_EQ(chunk.prefix, expected.at("prefix"));
      ASSERT_EQ(chunk.suffix, expected.at("suffix"));
      WhisperRun::Input input;
      input.mel = ConstMatrix(chunk.frames.data(), chunk.n_frames, 80);
      input.cut_front = (chunk.prefix + 1) / 2;
      input.cut_back = (chunk.suffix + 1) / 2;
      input.cache = &cache;
      input.item = static_cast<int>(i);
      ear.HearDirectly(input, &recorder);
      EXPECT_EQ(cache.length(), expected.at("remembered")) << i;
    }
    const int compared = CompareStages(GoldenStages(CaseFolder(name)), recorder, kTolerance);
    EXPECT_EQ(compared, json.at("n_positions") == 1500 ? 8 * 4 + 7 : 7);
  }
}

// The same chunks through the backend: the bits of the tower, a stream apart from its neighbour, and after a reset
// anew.
TEST(AudioStreams, KeepApartAndForget) {
  Ear ear({DType::kBF16, ""});
  const auto json = ReadCase("stream_duplex");
  const std::vector<MelStream::Chunk> chunks = Chunks(json);
  const AudioStreamId first = Must(ear.backend->NewAudioStream());
  const AudioStreamId second = Must(ear.backend->NewAudioStream());
  ASSERT_NE(first, second);
  const auto hear = [&](AudioStreamId stream, size_t i) {
    AudioRequest request;
    request.mel = ConstMatrix(chunks[i].frames.data(), chunks[i].n_frames, 80);
    request.prefix_frames = static_cast<int>(chunks[i].prefix);
    request.suffix_frames = static_cast<int>(chunks[i].suffix);
    request.stream = stream;
    ear.rows.clear();
    ear.Hear(request);
    return ear.rows;
  };
  const GoldenStages stages(CaseFolder("stream_duplex"));
  const std::vector<float> one = hear(first, 0);
  hear(second, 3);
  const std::vector<float> two = hear(first, 1);
  const TensorView wanted = stages.Values("aud.pool@1");
  EXPECT_TRUE(Within(std::span(wanted.as<float>(), static_cast<size_t>(wanted.shape.elements())), two, kTolerance));
  EXPECT_NE(hear(second, 1), two) << "what was heard before does not matter";
  ear.backend->ResetAudioStream(first);
  EXPECT_EQ(hear(first, 0), one);
  EXPECT_EQ(hear(first, 1), two);
  ear.backend->DropAudioStream(first);
  AudioRequest request;
  request.mel = ConstMatrix(chunks[0].frames.data(), 100, 80);
  request.stream = first;
  std::vector<float> out(static_cast<size_t>(10 * ear.n_embed));
  request.out = Matrix(out.data(), 10, ear.n_embed);
  EXPECT_THAT(ear.backend->BeginAudio(request).error().message, HasSubstr("does not exist"));
}

// A chunk too short for a row is remembered all the same.
TEST(AudioStreams, ShortChunksCount) {
  Ear ear({DType::kBF16, ""});
  const Mel mel = MelOf(Must(LoadAudio(Data() + "audio/cards_001.wav")));
  const auto rows_after = [&](int64_t n_before) {
    AudioRequest request;
    request.stream = Must(ear.backend->NewAudioStream());
    if (n_before > 0) {
      request.mel = mel.view().Rows(0, n_before);
      ear.Hear(request);
    }
    request.mel = mel.view().Rows(8, 92);
    ear.rows.clear();
    ear.Hear(request);
    return ear.rows;
  };
  EXPECT_NE(rows_after(8), rows_after(0));
}

TEST(AudioJob, SameBitsForAnyThreadsAndCuts) {
  const Mel mel = MelOf(Must(LoadAudio(Data() + "audio/cards_005.wav")));
  std::vector<float> wanted;
  for (const int threads : {1, 2, 3}) {
    Ear ear({DType::kBF16, ""}, 1500, threads);
    std::vector<float> out(static_cast<size_t>(35 * ear.n_embed));
    AudioRequest request;
    request.mel = mel.view();
    request.out = Matrix(out.data(), 35, ear.n_embed);
    auto job = Must(ear.backend->BeginAudio(request));
    int n_steps = 0;
    while (!Must(job->Step(0.0))) {
      EXPECT_EQ(job->groups_done(), 0);
      ++n_steps;
    }
    EXPECT_GE(n_steps, 9);  // a deadline in the past gives one piece of work a call
    EXPECT_EQ(job->groups_done(), 1);
    if (wanted.empty()) wanted = out;
    EXPECT_EQ(out, wanted) << threads;
  }
}

// What a frame may see: with the mask lifted, only the last block of a second stays as it was.
TEST(AudioTowerMask, BlocksOfASecond) {
  const Mel mel = MelOf(Must(LoadAudio(Data() + "audio/cards_005.wav")));
  Ear ear({DType::kBF16, ""});
  const auto first_layer = [&](double chunk_seconds) {
    ear.audio.chunk_seconds = chunk_seconds;
    Recorder recorder;
    WhisperRun::Input input;
    input.mel = mel.view();
    ear.HearDirectly(input, &recorder);
    return *recorder.Find("aud.layer.0@0");
  };
  const std::vector<float> blocks = first_layer(1.0);
  const std::vector<float> full = first_layer(-1.0);
  ASSERT_EQ(blocks.size(), 176u * 72u);
  for (size_t r = 0; r < 176; ++r) {
    const bool same =
        std::equal(blocks.begin() + static_cast<int64_t>(r * 72), blocks.begin() + static_cast<int64_t>((r + 1) * 72),
                   full.begin() + static_cast<int64_t>(r * 72));
    EXPECT_EQ(same, r >= 150) << r;
  }
}

TEST(AudioJob, RefusesWhatDoesNotFit) {
  Ear ear({DType::kBF16, ""});
  std::vector<float> values(3002 * 81);
  std::vector<float> out(static_cast<size_t>(301 * ear.n_embed));
  const auto error = [&](int64_t frames, int64_t bins, int64_t rows, int64_t cols, int prefix = 0, int suffix = 0,
                         AudioStreamId stream = -1) {
    AudioRequest request;
    request.mel = ConstMatrix(values.data(), frames, bins);
    request.out = Matrix(out.data(), rows, cols);
    request.prefix_frames = prefix;
    request.suffix_frames = suffix;
    request.stream = stream;
    const auto job = ear.backend->BeginAudio(request);
    return job.has_value() ? "no error" : job.error().message;
  };
  const int64_t e = ear.n_embed;
  EXPECT_EQ(error(3000, 80, 300, e), "no error");
  EXPECT_THAT(error(100, 81, 10, e), HasSubstr("81 bins, expected 80"));
  EXPECT_THAT(error(3001, 80, 300, e), HasSubstr("at most 3000"));
  EXPECT_THAT(error(100, 80, 9, e), HasSubstr("10 rows"));
  EXPECT_THAT(error(100, 80, 10, e - 1), HasSubstr("10 rows"));
  EXPECT_THAT(error(104, 80, 10, e, -1), HasSubstr("negative"));
  EXPECT_THAT(error(4, 80, 0, e, 2, 2), HasSubstr("nothing is left"));
  EXPECT_THAT(error(100, 80, 10, e, 0, 0, 7), HasSubstr("does not exist"));
  EXPECT_EQ(error(0, 80, 0, e), "no error");
  EXPECT_EQ(error(8, 80, 0, e), "no error");
  const AudioStreamId stream = Must(ear.backend->NewAudioStream());
  EXPECT_THAT(error(0, 80, 0, e, 0, 0, stream), HasSubstr("no frames"));
}

}  // namespace
}  // namespace minicpm::test
