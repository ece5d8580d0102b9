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
  double keep_seconds = 0;            // > 0: what comes later is dropped, and no limit counts it
};

// Samples in [-1, 1] at kAudioSampleRate, one channel.
using Samples = std::vector<float>;

// Whether the bytes begin as one of the formats above (of what Ogg may hold: Vorbis, Opus, FLAC). Headerless samples
// are never guessed.
bool IsSoundFile(std::span<const std::byte> bytes);

// Told apart by content, never by `name`, which only stands for the input in messages. Channels are averaged, then the
// rate is changed (soxr, high quality); samples that come at kAudioSampleRate stay as they are. No samples at all is a
// clip of length 0. Samples beyond 1 (float files, lossy codecs) are kept, infinite ones and NaN are refused.
//
// A file that ends before its format says it should is refused: WAV before the end of its samples (unless the header
// says 0, or 2 GiB and more, as programs write that do not know the length: then to the end of the file), FLAC before
// its last sample, Ogg in the middle of a page. MP3 has no end mark; whatever whole frames are there are the sound.
//
// Errors: kUnsupported (not one of the formats, or an odd kind of one), kCorrupt (broken), kResourceExhausted (over a
// limit, with both numbers; before memory for the samples is taken where the header tells), kNotFound, kIo (LoadAudio).
// Threads: safe from any number at once. Nothing is printed.
Result<Samples> DecodeAudio(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits = {});
Result<Samples> LoadAudio(const std::string& path, const AudioLimits& limits = {});

// The same conversion for samples that somebody else decoded, piece by piece.
class SoundConverter {
 public:
  // Errors: kCorrupt for a rate or a number of channels that no sound has.
  static Result<SoundConverter> Create(int rate, int channels, const std::string& name, const AudioLimits& limits);
  SoundConverter(SoundConverter&&) noexcept;
  SoundConverter& operator=(SoundConverter&&) noexcept;
  ~SoundConverter();

  // Takes memory for this many frames, so that it need not grow (and be copied) on the way. Only a hint.
  void Expect(uint64_t n_frames);
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
