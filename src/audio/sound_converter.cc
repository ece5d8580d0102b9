// SoundConverter: any rate and number of channels -> 16 kHz mono, block by block. Not for file formats (audio.cc).
#include <soxr.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "audio/audio.h"
#include "base/check.h"

namespace minicpm {
namespace {

// What any recording has, with room on both sides; a header outside is damaged or made up.
constexpr int kMinRate = 1000;
constexpr int kMaxRate = 768'000;
constexpr int kMaxChannels = 64;
constexpr size_t kBlockFrames = 8192;
constexpr size_t kSpareSamples = 512;  // more than what the resampler gives beyond the ratio

struct DeleteSoxr {
  void operator()(soxr_t soxr) const { soxr_delete(soxr); }
};

std::string Seconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", seconds);
  return text;
}

}  // namespace

struct SoundConverter::Impl {
  int channels = 1;
  int rate = 0;
  double max_seconds = 0;
  uint64_t keep_frames = 0;  // 0: all
  std::string name;
  std::unique_ptr<soxr, DeleteSoxr> resampler;  // none when the rate is right already
  uint64_t n_frames = 0;                        // pushed so far
  bool finished = false;
  std::vector<float> mono;  // scratch of Push
  Samples samples;

  Status Append(std::span<const float> block);
  Status Resample(const float* block, size_t n_block);
};

// Appends what comes out for the samples of `block`; for nullptr everything that is still inside.
Status SoundConverter::Impl::Resample(const float* block, size_t n_block) {
  const double ratio = static_cast<double>(kAudioSampleRate) / rate;
  while (true) {
    const size_t had = samples.size();
    const size_t room = static_cast<size_t>(static_cast<double>(n_block) * ratio) + kSpareSamples;
    samples.resize(had + room);
    size_t used = 0;
    size_t made = 0;
    const soxr_error_t error = soxr_process(resampler.get(), block, n_block, &used, samples.data() + had, room, &made);
    samples.resize(had + made);
    if (error != nullptr) {
      return Fail(ErrorCode::kResourceExhausted, name + ": the rate of the sound cannot be changed: " + error);
    }
    for (size_t i = had; i < samples.size(); ++i) {
      if (!std::isfinite(samples[i])) {
        return Fail(ErrorCode::kCorrupt, name + ": the sound has samples that are too large for changing its rate");
      }
    }
    if (block != nullptr) block += used;
    n_block -= used;
    if (n_block == 0 && made < room) return {};
  }
}

Status SoundConverter::Impl::Append(std::span<const float> block) {
  if (resampler != nullptr) return Resample(block.data(), block.size());
  samples.insert(samples.end(), block.begin(), block.end());
  return {};
}

SoundConverter::SoundConverter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SoundConverter::SoundConverter(SoundConverter&&) noexcept = default;
SoundConverter& SoundConverter::operator=(SoundConverter&&) noexcept = default;
SoundConverter::~SoundConverter() = default;

Result<SoundConverter> SoundConverter::Create(int rate, int channels, const std::string& name,
                                              const AudioLimits& limits) {
  const std::string safe_name = Printable(name, 300);
  if (rate < kMinRate || rate > kMaxRate) {
    return Fail(ErrorCode::kCorrupt, safe_name + ": the sound has " + std::to_string(rate) + " samples per second, " +
                                         std::to_string(kMinRate) + " to " + std::to_string(kMaxRate) +
                                         " are possible");
  }
  if (channels < 1 || channels > kMaxChannels) {
    return Fail(ErrorCode::kCorrupt, safe_name + ": the sound has " + std::to_string(channels) + " channels, 1 to " +
                                         std::to_string(kMaxChannels) + " are possible");
  }
  auto impl = std::make_unique<Impl>();
  impl->channels = channels;
  impl->rate = rate;
  impl->max_seconds = limits.max_seconds;
  if (limits.keep_seconds > 0) {
    const double frames = std::ceil(std::min(limits.keep_seconds, 1e9) * rate);
    impl->keep_frames = std::max<uint64_t>(static_cast<uint64_t>(frames), 1);
  }
  impl->name = safe_name;
  if (rate != kAudioSampleRate) {
    const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    soxr_error_t error = nullptr;
    impl->resampler.reset(soxr_create(rate, static_cast<double>(kAudioSampleRate), 1, &error, &io, &quality, &runtime));
    if (error != nullptr || impl->resampler == nullptr) {
      return Fail(ErrorCode::kResourceExhausted,
                  safe_name + ": the rate of the sound cannot be changed: " + (error != nullptr ? error : "no memory"));
    }
  }
  return SoundConverter(std::move(impl));
}

void SoundConverter::Expect(uint64_t n_frames) {
  constexpr double kMost = 1 << 30;  // whatever the limits are, a hint is no reason to ask for more
  const double seconds = std::min(static_cast<double>(n_frames) / impl_->rate, impl_->max_seconds);
  const double n_samples = std::min(std::max(seconds, 0.0) * kAudioSampleRate, kMost);
  // The resampler fills blocks that may have some room left at the end.
  impl_->samples.reserve(static_cast<size_t>(n_samples) + (impl_->resampler != nullptr ? kSpareSamples : 0));
}

Status SoundConverter::Push(std::span<const float> interleaved) {
  Impl& impl = *impl_;
  const size_t channels = static_cast<size_t>(impl.channels);
  MINICPM_CHECK(!impl.finished && interleaved.size() % channels == 0);
  size_t n_frames = interleaved.size() / channels;
  if (impl.keep_frames > 0) n_frames = std::min<uint64_t>(n_frames, impl.keep_frames - impl.n_frames);
  impl.n_frames += n_frames;
  if (static_cast<double>(impl.n_frames) > impl.max_seconds * impl.rate) {
    return Fail(ErrorCode::kResourceExhausted, impl.name + ": the sound has at least " +
                                                   Seconds(static_cast<double>(impl.n_frames) / impl.rate) +
                                                   " seconds, the limit is " + Seconds(impl.max_seconds));
  }
  for (size_t begin = 0; begin < n_frames; begin += kBlockFrames) {
    const size_t n = std::min(kBlockFrames, n_frames - begin);
    impl.mono.resize(n);
    const float* in = interleaved.data() + begin * channels;
    for (size_t i = 0; i < n; ++i, in += channels) {
      double sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += in[c];
      impl.mono[i] = static_cast<float>(sum / static_cast<double>(channels));
      if (!std::isfinite(impl.mono[i])) {
        return Fail(ErrorCode::kCorrupt, impl.name + ": the sound has samples that are infinite or not a number");
      }
    }
    MINICPM_TRY(impl.Append(impl.mono));
  }
  return {};
}

Result<Samples> SoundConverter::Finish() {
  Impl& impl = *impl_;
  MINICPM_CHECK(!impl.finished);
  impl.finished = true;
  if (impl.resampler != nullptr) MINICPM_TRY(impl.Resample(nullptr, 0));
  return std::move(impl.samples);
}

}  // namespace minicpm
