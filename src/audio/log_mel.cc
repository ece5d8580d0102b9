// Whisper's features of one piece of up to 30 s: padding, reflection, floor, scale. Not for one frame's spectrum
// (mel_spectrum.h) and not for streams (mel_stream.h).
#include "audio/log_mel.h"

#include <algorithm>
#include <array>
#include <vector>

#include "audio/mel_spectrum.h"
#include "base/check.h"

namespace minicpm {
namespace {

constexpr int64_t kFramesOfPiece = kAudioPieceSamples / kAudioHop;

// Sample `i` of the piece after padding with zeros to 30 s and mirroring at both ends.
float PaddedSample(std::span<const float> samples, int64_t i) {
  if (i < 0) i = -i;
  if (i >= kAudioPieceSamples) i = 2 * (kAudioPieceSamples - 1) - i;
  return i < static_cast<int64_t>(samples.size()) ? samples[i] : 0.0f;
}

}  // namespace

struct LogMel::Impl {
  explicit Impl(int64_t n_mels) : spectrum(n_mels), log_mel(n_mels) {}

  // log10 mel of `frame` into log_mel.
  void ComputeFrame(std::span<const float> samples, int64_t frame) {
    const int64_t begin = frame * kAudioHop - kMelHalfWindow;
    if (begin >= 0 && begin + kMelWindow <= static_cast<int64_t>(samples.size())) {
      spectrum.Compute(samples.subspan(begin, kMelWindow), log_mel);
      return;
    }
    std::array<float, kMelWindow> window;
    for (int64_t i = 0; i < kMelWindow; ++i) window[i] = PaddedSample(samples, begin + i);
    spectrum.Compute(window, log_mel);
  }

  MelSpectrum spectrum;
  std::vector<double> log_mel;
};

LogMel::LogMel(int64_t n_mels) : impl_(std::make_unique<Impl>(n_mels)) {}
LogMel::~LogMel() = default;
LogMel::LogMel(LogMel&&) noexcept = default;
LogMel& LogMel::operator=(LogMel&&) noexcept = default;

int64_t LogMel::n_mels() const { return impl_->spectrum.n_mels(); }

void LogMel::Compute(std::span<const float> samples, Matrix out) {
  const int64_t n_samples = static_cast<int64_t>(samples.size());
  MINICPM_CHECK(n_samples <= kAudioPieceSamples);
  MINICPM_CHECK(out.rows == MelFrames(n_samples) && out.cols == n_mels());
  // Frames past the last one that overlaps the samples see zeros only: -10 in every bin, the least there is. The
  // overlapping ones that are not given out count for the maximum all the same.
  const int64_t n_overlapping = std::min(kFramesOfPiece, MelFrames(n_samples + kMelHalfWindow));
  double highest = kMelQuietest;
  for (int64_t frame = 0; frame < (n_samples == 0 ? 0 : n_overlapping); ++frame) {
    impl_->ComputeFrame(samples, frame);
    for (size_t m = 0; m < impl_->log_mel.size(); ++m) {
      highest = std::max(highest, impl_->log_mel[m]);
      if (frame < out.rows) out.row(frame)[m] = static_cast<float>(impl_->log_mel[m]);
    }
  }
  const float floor = static_cast<float>(highest - 8);
  for (int64_t frame = 0; frame < out.rows; ++frame) {
    for (float& value : std::span(out.row(frame), out.cols)) value = (std::max(value, floor) + 4) / 4;
  }
}

}  // namespace minicpm
