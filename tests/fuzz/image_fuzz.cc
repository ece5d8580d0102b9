// Fuzzes the picture reader: any bytes as a file of any format, under small limits. Every picture that comes out must
// keep its promises and survive a resize. Not for speed, and not for the codec libraries' own insides, which are not
// instrumented.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/status.h"
#include "image/image.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  constexpr minicpm::ImageLimits kLimits = {.max_bytes = 1 << 16, .max_pixels = 1 << 14};
  // An exact heap copy, so that the address sanitizer sees any step outside.
  const std::unique_ptr<std::byte[]> bytes(new std::byte[size + (size == 0 ? 1 : 0)]);
  if (size > 0) std::memcpy(bytes.get(), input, size);
  const auto image = minicpm::DecodeImage({bytes.get(), size}, "fuzz", kLimits);
  if (!image.has_value()) {
    Require(image.error().message.starts_with("fuzz: "));
    Require(minicpm::Printable(image.error().message, 1 << 20) == image.error().message);
    return 0;
  }
  Require(size <= kLimits.max_bytes);
  Require(image->width >= 1 && image->height >= 1);
  Require(static_cast<uint64_t>(image->width) * image->height <= kLimits.max_pixels);
  Require(image->rgb.size() == size_t{3} * image->width * image->height);
  const minicpm::Image small = minicpm::ResizeBicubic(*image, 5, 3);
  Require(small.rgb.size() == 45);
  return 0;
}
