// Reads a small text file of a checkpoint folder whole. Not for weights: those are mapped (store/).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"

namespace minicpm {

// The file's bytes, or nothing when there is no such file. Errors: kIo, kResourceExhausted (larger than `max_bytes`),
// kCorrupt (a git-lfs pointer).
Result<std::optional<std::string>> ReadTextFile(const std::string& path, size_t max_bytes);

}  // namespace minicpm
