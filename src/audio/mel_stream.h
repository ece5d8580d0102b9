// Live sound at 16 kHz -> chunks of log-mel frames as MiniCPM-o hears them, one a second. Not for whole clips
// (log_mel.h) and not for decoding or changing rates (audio.h).
// Source: StreamingMelProcessorExact of MiniCPM-o 4.5's processing code, streaming_prefill and the duplex loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace minicpm {

// Every chunk stands for 100 frames (1 s). In duplex it also carries two frames of context on each side, which the
// encoder cuts away again after its convolutions; the first chunk has none in front.
//
// The frames of a chunk are those of the whole sound so far (at most 30 s, of which 10 are dropped when they are full),
// mirrored at both ends; while it is shorter than 5 s the floor is -10, then its own maximum - 8 (log10).
// Threads: one at a time.
class MelStream {
 public:
  enum class Mode { kHalfDuplex, kDuplex };

  // n_mels: mel bins of the model (80).
  MelStream(Mode mode, int64_t n_mels);
  MelStream(MelStream&&) noexcept;
  MelStream& operator=(MelStream&&) noexcept;
  ~MelStream();

  struct Chunk {
    std::vector<float> frames;  // [n_frames, n_mels]
    int64_t n_frames = 0;       // prefix + core + suffix
    int64_t prefix = 0;         // frames of context in front, already given out before
    int64_t suffix = 0;         // frames of context behind, given out again later
  };

  // More sound, any number of samples.
  void Push(std::span<const float> samples);
  // The next chunk, or nothing while its second is not complete. The first one takes 1.035 s; if at the first call
  // there is less (but something), zeros are put in front of it. So push at least the first second before calling.
  std::optional<Chunk> Next();
  // At the end, when Next gives nothing more: the last, shorter chunk, or nothing. Its last frames see the sound
  // mirrored at its end.
  std::optional<Chunk> Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
