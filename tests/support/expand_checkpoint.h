// ExpandCheckpoint: a copy of a checkpoint folder with every weight in another float format. For tests on tiny models.
// Not the product's converter: one tensor at a time in memory, single output file, no quantisation.
#pragma once

#include <string>

#include "base/status.h"
#include "tensor/tensor.h"

namespace minicpm::test {

// Copies the files that hold no weights and writes all tensors to `to_folder`/model.safetensors: F32, F16 and BF16 ones
// as `dtype` (rounded to nearest, ties to even), others unchanged. Requires: dtype is kF32, kF16 or kBF16.
Status ExpandCheckpoint(const std::string& from_folder, const std::string& to_folder, DType dtype);

}  // namespace minicpm::test
