// One RGB picture -> JPEG bytes, for Motion JPEG. Internal to this room. Not for reading (image/image.h).
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "image/image.h"

namespace minicpm {

// Baseline, chroma halved both ways. quality: 1 to 100. Errors: kResourceExhausted, kUnsupported from the library.
Result<std::vector<std::byte>> EncodeJpeg(const Image& image, int quality);

}  // namespace minicpm
