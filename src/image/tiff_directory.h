// Whether everything a TIFF directory points at lies inside the file. Not for reading tags: libtiff does that, but it
// lets a palette or a table that was cut off pass with a warning and a wrong picture.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "image/codec.h"

namespace minicpm {

// The directory at `offset`, and the values of those of its tags that a picture's pixels depend on.
// Requires: in.bytes begins with a TIFF or BigTIFF header.
Status CheckTiffDirectory(const CodecInput& in, uint64_t offset);

}  // namespace minicpm
