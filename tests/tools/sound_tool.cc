// sound_tool THREADS CLIP MODEL...: how long the audio towers of models take for a clip of at most 30 s, and how close
// each is to the first, for weights that differ in format only. Prints a table; not part of the product.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "audio/audio.h"
#include "audio/log_mel.h"
#include "backends/native/native_backend.h"
#include "cosine.h"
#include "os/clock.h"

namespace minicpm {
namespace {

constexpr double kNever = 1e18;

// What the encoder gives to the projector.
class Keeper : public Tap {
 public:
  void OnStage(const Stage& stage, ConstMatrix value) override {
    if (std::string(stage.name) != "aud.norm") return;
    frames.clear();
    for (int64_t r = 0; r < value.rows; ++r) frames.insert(frames.end(), value.row(r), value.row(r) + value.cols);
  }
  std::vector<float> frames;
};

struct Output {
  std::vector<float> frames, rows;
  double ms = 0;          // the fastest of three
  double longest_ms = 0;  // piece of work
};

Result<Output> Hear(const char* folder, const Samples& samples, int n_threads) {
  MINICPM_ASSIGN(const ModelConfig config, ReadModelConfig(folder));
  MINICPM_ASSIGN(Checkpoint checkpoint, Checkpoint::Open(folder));
  MINICPM_ASSIGN(auto model, NativeModel::Load(config, std::make_shared<const Checkpoint>(std::move(checkpoint))));
  MINICPM_ASSIGN(const auto backend, NewNativeBackend(model, {.n_threads = n_threads, .kv_tokens = 64}));
  if (!config.audio.has_value()) return Fail(ErrorCode::kUnsupported, std::string(folder) + " does not hear");
  const int64_t n_mel = MelFrames(static_cast<int64_t>(samples.size()));
  std::vector<float> mel(static_cast<size_t>(n_mel * config.audio->n_mels));
  const Matrix frames(mel.data(), n_mel, config.audio->n_mels);
  LogMel(config.audio->n_mels).Compute(samples, frames);
  const int64_t n_rows = config.audio->n_rows(AudioConfig::n_frames(n_mel));
  Output out;
  out.rows.resize(static_cast<size_t>(n_rows * config.decoder.n_embed));
  Keeper keeper;
  for (int run = 0; run < 3; ++run) {
    backend->set_tap(run == 0 ? &keeper : nullptr);  // the first also touches the weights
    AudioRequest request;
    request.mel = frames;
    request.out = Matrix(out.rows.data(), n_rows, config.decoder.n_embed);
    const double start_ms = NowMs();
    MINICPM_ASSIGN(const auto job, backend->BeginAudio(request));
    double longest_ms = 0;
    for (bool done = false; !done;) {
      const double piece_ms = NowMs();
      MINICPM_ASSIGN(done, job->Step(0.0));
      longest_ms = std::max(longest_ms, NowMs() - piece_ms);
    }
    const double ms = NowMs() - start_ms;
    if (run == 0 || ms < out.ms) {
      out.ms = ms;
      out.longest_ms = longest_ms;
    }
  }
  out.frames = std::move(keeper.frames);
  return out;
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: sound_tool THREADS CLIP MODEL...\n");
    return 2;
  }
  auto samples = LoadAudio(argv[2]);
  if (!samples.has_value()) {
    std::fprintf(stderr, "%s\n", samples.error().message.c_str());
    return 1;
  }
  samples->resize(std::min<size_t>(samples->size(), kAudioPieceSamples));
  const double seconds = static_cast<double>(samples->size()) / static_cast<double>(kAudioSampleRate);
  Output first;
  for (int i = 3; i < argc; ++i) {
    auto out = Hear(argv[i], *samples, std::atoi(argv[1]));
    if (!out.has_value()) {
      std::fprintf(stderr, "%s\n", out.error().message.c_str());
      return 1;
    }
    if (i == 3) first = *out;
    std::printf(
        "%-30s %.2f s of sound: %.0f ms (%.3f of its length), longest piece %.0f ms; cosine with the first: "
        "frames %.6f, rows %.6f\n",
        argv[i], seconds, out->ms, out->ms / seconds / 1e3, out->longest_ms, Cosine(first.frames, out->frames),
        Cosine(first.rows, out->rows));
  }
  return 0;
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) { return minicpm::Main(argc, argv); }
