// MelStream: the sliding buffer, which frames are stable, and the floor. Not for one frame's spectrum (mel_spectrum.h).
#include "audio/mel_stream.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "audio/mel_spectrum.h"
#include "audio/token_count.h"
#include "base/check.h"

namespace minicpm {
namespace {

constexpr int64_t kChunkFrames = 100;
constexpr int64_t kChunkSamples = kChunkFrames * kAudioHop;
constexpr int64_t kFirstSamples = 16560;        // 1.035 s
constexpr int64_t kFirstSamplesDuplex = 16480;  // the same in whole frames
constexpr int64_t kFixedFloorSamples = 5 * kAudioSampleRate;
constexpr int64_t kFullSamples = 30 * kAudioSampleRate;
constexpr int64_t kDroppedSamples = 10 * kAudioSampleRate;

}  // namespace

struct MelStream::Impl {
  Impl(Mode mode, int64_t n_mels) : context(mode == Mode::kDuplex ? 2 : 0), spectrum(n_mels) {}

  std::optional<Chunk> Next();
  std::optional<Chunk> Finish();
  // Takes `n` samples from pending into buffer and brings logs up to date.
  void Feed(int64_t n);
  void ComputeFrame(int64_t frame);
  Chunk Emit(int64_t n_core);
  int64_t FirstFrame() const { return next - base; }  // of the next chunk's core, in buffer

  int64_t context = 0;  // frames on each side
  MelSpectrum spectrum;
  std::vector<float> pending;  // not yet part of any chunk
  bool started = false;        // the first chunk was made
  std::vector<float> buffer;   // the sound that the frames are computed from
  std::vector<double> logs;    // [floor(buffer / 160), n_mels] log10
  int64_t n_final = 0;         // rows of logs that more sound does not change
  int64_t base = 0;            // frames dropped in front of buffer
  int64_t next = 0;            // first frame of the next chunk's core, counted from the beginning of the sound
};

MelStream::MelStream(Mode mode, int64_t n_mels) : impl_(std::make_unique<Impl>(mode, n_mels)) {}
MelStream::MelStream(MelStream&&) noexcept = default;
MelStream& MelStream::operator=(MelStream&&) noexcept = default;
MelStream::~MelStream() = default;

void MelStream::Push(std::span<const float> samples) {
  impl_->pending.insert(impl_->pending.end(), samples.begin(), samples.end());
}

std::optional<MelStream::Chunk> MelStream::Next() { return impl_->Next(); }
std::optional<MelStream::Chunk> MelStream::Finish() { return impl_->Finish(); }

std::optional<MelStream::Chunk> MelStream::Impl::Next() {
  if (!started && !pending.empty() && pending.size() < static_cast<size_t>(kFirstSamples)) {
    pending.insert(pending.begin(), kFirstSamples - pending.size(), 0.0f);
  }
  const int64_t wanted = started ? kChunkSamples : context > 0 ? kFirstSamplesDuplex : kFirstSamples;
  if (static_cast<int64_t>(pending.size()) < wanted) return std::nullopt;
  started = true;
  Feed(wanted);
  MINICPM_CHECK(FirstFrame() + kChunkFrames + context <= n_final);
  return Emit(kChunkFrames);
}

std::optional<MelStream::Chunk> MelStream::Impl::Finish() {
  if (!started || pending.empty()) return Next();
  MINICPM_CHECK(pending.size() < static_cast<size_t>(kChunkSamples));
  Feed(static_cast<int64_t>(pending.size()));
  const int64_t n_frames = static_cast<int64_t>(buffer.size()) / kAudioHop;
  const int64_t n_core = std::min(kChunkFrames, n_frames - FirstFrame());
  if (n_core <= 0) return std::nullopt;
  return Emit(n_core);
}

void MelStream::Impl::Feed(int64_t n) {
  buffer.insert(buffer.end(), pending.begin(), pending.begin() + n);
  pending.erase(pending.begin(), pending.begin() + n);
  const int64_t n_mels = spectrum.n_mels();
  bool dropped = false;
  if (static_cast<int64_t>(buffer.size()) >= kFullSamples) {
    constexpr int64_t kDroppedFrames = kDroppedSamples / kAudioHop;
    buffer.erase(buffer.begin(), buffer.begin() + kDroppedSamples);
    logs.erase(logs.begin(), logs.begin() + kDroppedFrames * n_mels);
    n_final -= kDroppedFrames;
    base += kDroppedFrames;
    dropped = true;
  }
  const int64_t n_samples = static_cast<int64_t>(buffer.size());
  const int64_t n_frames = n_samples / kAudioHop;
  logs.resize(n_frames * n_mels);
  if (dropped) {  // the sound is mirrored at its new beginning
    for (int64_t frame = 0; frame * kAudioHop < kMelHalfWindow; ++frame) ComputeFrame(frame);
  }
  for (int64_t frame = n_final; frame < n_frames; ++frame) ComputeFrame(frame);
  n_final = std::min(n_frames, (n_samples - kMelHalfWindow) / kAudioHop + 1);
}

void MelStream::Impl::ComputeFrame(int64_t frame) {
  const std::span log_mel(logs.data() + frame * spectrum.n_mels(), spectrum.n_mels());
  const int64_t begin = frame * kAudioHop - kMelHalfWindow;
  const int64_t n = static_cast<int64_t>(buffer.size());
  if (begin >= 0 && begin + kMelWindow <= n) {
    spectrum.Compute(std::span(buffer).subspan(begin, kMelWindow), log_mel);
    return;
  }
  std::array<float, kMelWindow> window;
  for (int64_t i = 0; i < kMelWindow; ++i) {
    int64_t at = begin + i;
    if (at < 0) at = -at;
    if (at >= n) at = 2 * (n - 1) - at;
    window[i] = buffer[at];
  }
  spectrum.Compute(window, log_mel);
}

MelStream::Chunk MelStream::Impl::Emit(int64_t n_core) {
  const int64_t n_mels = spectrum.n_mels();
  const int64_t n_frames = static_cast<int64_t>(logs.size()) / n_mels;
  const int64_t first = FirstFrame();
  Chunk chunk;
  chunk.prefix = std::min(context, next);
  chunk.suffix = std::min(context, n_frames - first - n_core);
  chunk.n_frames = chunk.prefix + n_core + chunk.suffix;
  const double floor = static_cast<int64_t>(buffer.size()) < kFixedFloorSamples
                           ? kMelQuietest
                           : *std::max_element(logs.begin(), logs.end()) - 8;
  const auto begin = logs.begin() + (first - chunk.prefix) * n_mels;
  chunk.frames.reserve(chunk.n_frames * n_mels);
  std::transform(begin, begin + chunk.n_frames * n_mels, std::back_inserter(chunk.frames),
                 [floor](double value) { return static_cast<float>((std::max(value, floor) + 4) / 4); });
  next += kChunkFrames;
  return chunk;
}

}  // namespace minicpm
