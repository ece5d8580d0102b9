// Where the tensors of a bundle lie in weights.safetensors, and the header that says so. Not for their content.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "convert/recipe.h"

namespace minicpm {

struct WeightsLayout {
  // Length, JSON and spaces: the data begins behind it, at a multiple of 2 MiB, so that large pages fit.
  std::string header;
  uint64_t file_bytes = 0;
  struct Span {
    uint64_t offset = 0;  // in the file; a multiple of 64
    uint64_t bytes = 0;
  };
  std::vector<Span> tensors;  // as in the plan
  std::vector<Span> pads;     // the gaps, filled with zeros by `__pad.N` tensors
};

// Errors: kInvalidArgument when a size overflows or the header would be longer than readers accept.
Result<WeightsLayout> LayOutWeights(std::span<const PlannedTensor> tensors);

}  // namespace minicpm
