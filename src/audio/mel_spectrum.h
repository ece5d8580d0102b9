// One window of samples -> its log10 mel spectrum; what the whole-clip and the streamed extractor share.
// Internal to this room; callers outside use log_mel.h and mel_stream.h. Not for floors, scaling or padding.
#pragma once

#include <complex>
#include <cstdint>
#include <kissfft/kissfft.hh>
#include <span>
#include <vector>

#include "audio/token_count.h"

namespace minicpm {

constexpr int64_t kMelWindow = 400;                 // samples of one frame
constexpr int64_t kMelHalfWindow = kMelWindow / 2;  // frame f sees the samples [160 f - 200, 160 f + 200)
constexpr double kMelQuietest = -10;                // log10 of the smallest power that counts, 1e-10

// Everything in double: in float the quiet bins of a loud frame would be off by more than 1e-5.
// Threads: one at a time (scratch inside).
class MelSpectrum {
 public:
  explicit MelSpectrum(int64_t n_mels);

  int64_t n_mels() const { return static_cast<int64_t>(filters_.size()); }
  // log_mel [n_mels]: log10(max(power, 1e-10)). Requires: kMelWindow samples.
  void Compute(std::span<const float> window, std::span<double> log_mel);

 private:
  // A triangle over the power spectrum.
  struct Filter {
    int64_t first_bin = 0;
    std::vector<double> weights;
  };

  std::vector<double> window_;  // periodic Hann
  std::vector<Filter> filters_;
  kissfft<double> fft_;
  std::vector<double> windowed_;
  std::vector<std::complex<double>> spectrum_;
  std::vector<double> power_;
};

}  // namespace minicpm
