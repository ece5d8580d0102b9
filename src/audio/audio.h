// Encoded sound (WAV, FLAC, OGG, Opus, MP3) -> 16 kHz mono samples. Knows no model class.
// Not for containers with pictures (src/video) or for mel frames (log_mel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "audio/token_count.h"
#include "base/status.h"

namespace minicpm {

struct AudioLimits {
  uint64_t max_bytes = 512ull << 20;  // encoded size
  double max_seconds = 3600;          // after decoding
};

// Samples in [-1, 1] at kAudioSampleRate, one channel.
using Samples = std::vector<float>;

// Told apart by content, never by `name`, which only stands for the input in messages. Channels are averaged, then the
// rate is changed (soxr, high quality). No samples at all is a clip of length 0.
// Errors: kUnsupported (not one of the formats), kCorrupt (broken), kResourceExhausted (over a limit, with both
// numbers; before memory for the samples is taken where the header tells), kNotFound, kIo (LoadAudio).
// Threads: safe from any number at once. Nothing is printed.
Result<Samples> DecodeAudio(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits = {});
Result<Samples> LoadAudio(const std::string& path, const AudioLimits& limits = {});

// The same conversion for samples that somebody else decoded, piece by piece.
class SoundConverter {
 public:
  // Errors: kInvalidArgument for a rate or a number of channels that no sound has.
  static Result<SoundConverter> Create(int rate, int channels, const std::string& name, const AudioLimits& limits);
  SoundConverter(SoundConverter&&) noexcept;
  SoundConverter& operator=(SoundConverter&&) noexcept;
  ~SoundConverter();

  // Interleaved samples, a whole number of frames. Errors: kResourceExhausted past the limit.
  Status Push(std::span<const float> interleaved);
  // Everything converted. Push and Finish may not be called again.
  Result<Samples> Finish();

 private:
  struct Impl;
  explicit SoundConverter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
