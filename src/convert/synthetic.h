// Synthetic bundles: random weights at real shapes, written straight in the target format, for measuring speed and
// memory where no checkpoint is at hand. Their answers mean nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "convert/finish.h"
#include "convert/recipe.h"

namespace minicpm {

struct SyntheticOptions {
  std::string model;   // as MakeSyntheticModel takes it
  std::string folder;  // of the bundle
  uint64_t seed = 1;
  RecipeOptions recipe;
  std::string tool;
  std::string created_utc;  // "" = now
  bool restart = false;
  bool force = false;
  bool selftest = false;
  int n_threads = 0;  // 0 = all usable cores
  const std::atomic<bool>* cancel = nullptr;
  ConvertListener* listener = nullptr;
};

// Same options, same bytes, for any number of threads. Goes on where a killed call was. Errors: those of the options
// and of writing.
Result<FinishedBundle> WriteSyntheticBundle(const SyntheticOptions& options);

}  // namespace minicpm
