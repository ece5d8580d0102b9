// Fuzzes the AVI reader, its indices and its sound: any bytes as a file, under small limits. A video that opens must
// keep its promises. Not for speed, and not for the JPEG library's own insides, which are not instrumented.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/status.h"
#include "video/avi.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

void CheckError(const minicpm::Error& error) {
  Require(error.message.starts_with("fuzz: "));
  Require(minicpm::Printable(error.message, 1 << 20) == error.message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  minicpm::VideoLimits limits;
  limits.max_pixels = 1 << 14;
  limits.max_frames = 500;
  limits.sound.max_seconds = 2;
  // An exact heap copy, so that the address sanitizer sees any step outside.
  const std::unique_ptr<std::byte[]> bytes(new std::byte[size + (size == 0 ? 1 : 0)]);
  if (size > 0) std::memcpy(bytes.get(), input, size);
  const auto source = minicpm::MemorySource({bytes.get(), size}, "fuzz");
  const auto sound = minicpm::LoadAviSound(*source, limits.sound);
  if (!sound.has_value()) CheckError(sound.error());
  if (sound.has_value() && sound->has_value()) {
    for (const float v : **sound) Require(v == v);
  }
  auto reader = minicpm::OpenAvi(minicpm::MemorySource({bytes.get(), size}, "fuzz"), limits);
  if (!reader.has_value()) {
    CheckError(reader.error());
    return 0;
  }
  const minicpm::VideoInfo& info = (*reader)->info();
  Require(info.n_frames >= 1 && info.n_frames <= limits.max_frames && info.fps > 0 && info.width >= 1);
  for (const int64_t index : {info.n_frames - 1, int64_t{0}, info.n_frames / 2}) {
    const auto frame = (*reader)->Frame(index);
    if (!frame.has_value()) {
      CheckError(frame.error());
      continue;
    }
    Require(frame->width == info.width && frame->height == info.height);
    Require(frame->rgb.size() == size_t{3} * info.width * info.height);
  }
  return 0;
}
