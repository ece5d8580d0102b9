// Samples -> log-mel frames, exactly as Whisper's feature extractor. Not for decoding sound (audio.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "audio/token_count.h"
#include "tensor/tensor.h"

namespace minicpm {

// n_fft 400, hop 160, periodic Hann window, Slaney scale and area normalisation, 0 to 8000 Hz.
// Threads: const methods from one thread at a time (scratch inside).
class LogMel {
 public:
  // n_mels: mel bins of the model (80).
  explicit LogMel(int64_t n_mels);
  ~LogMel();
  LogMel(LogMel&&) noexcept;
  LogMel& operator=(LogMel&&) noexcept;

  int64_t n_mels() const;
  // One piece. out [MelFrames(samples.size()), n_mels]. The piece counts as padded with zeros to 30 s, and then
  // reflected by 200 samples at both ends; the floor is the piece's own maximum - 8 (log10), frames of the padding
  // included. Requires: at most kAudioPieceSamples samples.
  void Compute(std::span<const float> samples, Matrix out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
