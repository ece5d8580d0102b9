// Hann window, Fourier transform and Slaney's mel filters of one frame. Not for more than one frame.
#include "audio/mel_spectrum.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace minicpm {
namespace {

constexpr int64_t kBins = kMelWindow / 2 + 1;
constexpr double kTopHertz = static_cast<double>(kAudioSampleRate) / 2;

// Slaney's mel scale: linear up to 1000 Hz (15 mel), then logarithmic, 27 mel for each factor of 6.4.
constexpr double kHertzPerMel = 200.0 / 3;
constexpr double kBreakHertz = 1000;
constexpr double kBreakMel = kBreakHertz / kHertzPerMel;

double MelOf(double hertz) {
  if (hertz < kBreakHertz) return hertz / kHertzPerMel;
  return kBreakMel + std::log(hertz / kBreakHertz) * 27 / std::log(6.4);
}

double HertzOf(double mel) {
  if (mel < kBreakMel) return mel * kHertzPerMel;
  return kBreakHertz * std::exp((mel - kBreakMel) * std::log(6.4) / 27);
}

}  // namespace

MelSpectrum::MelSpectrum(int64_t n_mels)
    : window_(kMelWindow), filters_(n_mels), fft_(kMelWindow / 2, false), windowed_(kMelWindow), power_(kBins) {
  MINICPM_CHECK(n_mels >= 1);
  spectrum_.resize(kMelWindow / 2);
  for (int64_t i = 0; i < kMelWindow; ++i) {
    window_[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kMelWindow);
  }
  // n_mels triangles between n_mels + 2 points at equal distances on the mel scale, each of area 1 (in Hz).
  std::vector<double> points(n_mels + 2);
  for (int64_t i = 0; i < n_mels + 2; ++i) {
    points[i] = HertzOf(MelOf(kTopHertz) * static_cast<double>(i) / static_cast<double>(n_mels + 1));
  }
  for (int64_t m = 0; m < n_mels; ++m) {
    const double low = points[m];
    const double peak = points[m + 1];
    const double high = points[m + 2];
    Filter& filter = filters_[m];
    for (int64_t bin = 0; bin < kBins; ++bin) {
      const double hertz = kTopHertz * static_cast<double>(bin) / (kBins - 1);
      const double weight = std::min((hertz - low) / (peak - low), (high - hertz) / (high - peak));
      if (weight <= 0) continue;
      if (filter.weights.empty()) filter.first_bin = bin;
      filter.weights.push_back(weight * 2 / (high - low));
    }
  }
}

void MelSpectrum::Compute(std::span<const float> window, std::span<double> log_mel) {
  MINICPM_CHECK(window.size() == static_cast<size_t>(kMelWindow) && log_mel.size() == filters_.size());
  for (int64_t i = 0; i < kMelWindow; ++i) windowed_[i] = window_[i] * window[i];
  fft_.transform_real(windowed_.data(), spectrum_.data());
  // The first place holds the two real ends: no frequency, and the highest.
  power_[0] = spectrum_[0].real() * spectrum_[0].real();
  power_[kBins - 1] = spectrum_[0].imag() * spectrum_[0].imag();
  for (int64_t bin = 1; bin < kBins - 1; ++bin) power_[bin] = std::norm(spectrum_[bin]);
  for (size_t m = 0; m < filters_.size(); ++m) {
    const Filter& filter = filters_[m];
    double sum = 0;
    for (size_t i = 0; i < filter.weights.size(); ++i) sum += filter.weights[i] * power_[filter.first_bin + i];
    log_mel[m] = std::log10(std::max(sum, 1e-10));
  }
}

}  // namespace minicpm
