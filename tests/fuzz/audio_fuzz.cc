// Fuzzes the sound reader: any bytes as a file of any format, under small limits. Every clip that comes out must be
// finite and within the limits, and survive the features. Not for speed, and not for the codec libraries' own insides,
// which are not instrumented.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "audio/audio.h"
#include "audio/log_mel.h"
#include "base/status.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  constexpr minicpm::AudioLimits kLimits = {.max_bytes = 1 << 16, .max_seconds = 2};
  // An exact heap copy, so that the address sanitizer sees any step outside.
  const std::unique_ptr<std::byte[]> copy(new std::byte[size + (size == 0 ? 1 : 0)]);
  if (size > 0) std::memcpy(copy.get(), input, size);
  const std::span<const std::byte> bytes(copy.get(), size);
  const bool is_sound = minicpm::IsSoundFile(bytes);
  const auto samples = minicpm::DecodeAudio(bytes, "fuzz", kLimits);
  if (!samples.has_value()) {
    Require(samples.error().message.starts_with("fuzz: "));
    Require(minicpm::Printable(samples.error().message, 1 << 20) == samples.error().message);
    return 0;
  }
  Require(is_sound && size <= kLimits.max_bytes);
  Require(samples->size() <= 2 * minicpm::kAudioSampleRate + 1);
  for (const float sample : *samples) Require(std::isfinite(sample));
  const std::span<const float> beginning = std::span(*samples).first(std::min<size_t>(samples->size(), 3200));
  const int64_t rows = minicpm::MelFrames(static_cast<int64_t>(beginning.size()));
  std::vector<float> frames(rows * 80);
  minicpm::LogMel(80).Compute(beginning, minicpm::Matrix(frames.data(), rows, 80));
  for (const float value : frames) Require(std::isfinite(value));
  return 0;
}
