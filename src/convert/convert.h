// ConvertCheckpoint: an official checkpoint becomes a bundle, in bounded memory, going on after a kill. Not for
// choosing formats (recipe.h) or for making up weights (synthetic.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "convert/finish.h"
#include "convert/recipe.h"

namespace minicpm {

struct ConvertOptions {
  std::string checkpoint;  // folder
  std::string folder;      // of the bundle
  RecipeOptions recipe;
  std::string tool;
  std::string created_utc;  // "" = now
  bool restart = false;
  bool force = false;
  bool selftest = true;
  int n_threads = 0;                         // 0 = all usable cores
  uint64_t sync_bytes = uint64_t{32} << 20;  // weights between two entries of the journal
  const std::atomic<bool>* cancel = nullptr;
  ConvertListener* listener = nullptr;
};

// Same checkpoint, options and version: same bytes, for any number of threads and after any number of interruptions.
// Errors: those of reading the checkpoint, of the options and of writing, one sentence each.
Result<FinishedBundle> ConvertCheckpoint(const ConvertOptions& options);

}  // namespace minicpm
