// Fuzzes the Y4M reader: any bytes as a file, under small limits. A video that opens must keep its promises frame by
// frame. Not for speed.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/status.h"
#include "video/y4m.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  minicpm::VideoLimits limits;
  limits.max_pixels = 1 << 14;
  limits.max_frames = 200;
  // An exact heap copy, so that the address sanitizer sees any step outside.
  const std::unique_ptr<std::byte[]> bytes(new std::byte[size + (size == 0 ? 1 : 0)]);
  if (size > 0) std::memcpy(bytes.get(), input, size);
  auto reader = minicpm::OpenY4m(minicpm::MemorySource({bytes.get(), size}, "fuzz"), limits);
  if (!reader.has_value()) {
    Require(reader.error().message.starts_with("fuzz: "));
    Require(minicpm::Printable(reader.error().message, 1 << 20) == reader.error().message);
    return 0;
  }
  const minicpm::VideoInfo& info = (*reader)->info();
  Require(info.n_frames >= 1 && info.n_frames <= limits.max_frames && info.fps > 0 && info.duration_s > 0);
  for (const int64_t index : {info.n_frames - 1, int64_t{0}, info.n_frames / 2}) {
    const auto frame = (*reader)->Frame(index);
    Require(frame.has_value());  // everything was looked at when it was opened
    Require(frame->width == info.width && frame->height == info.height);
    Require(frame->rgb.size() == size_t{3} * info.width * info.height);
  }
  return 0;
}
