// The last steps of every conversion: hashes of all files, the self-test, bundle.json, and the folder's name. Not for
// weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convert/bundle_writer.h"
#include "convert/recipe.h"

namespace minicpm {

// Progress of a conversion; called on the caller's thread.
class ConvertListener {
 public:
  virtual ~ConvertListener() = default;
  // `what` is a few words: "converting", "hashing", "self-test".
  virtual void OnProgress(const char* /*what*/, uint64_t /*done_bytes*/, uint64_t /*total_bytes*/) {}
};

struct FinishOptions {
  std::string family;
  std::string tool;
  bool synthetic = false;
  std::string source;
  std::vector<BundleFile> sources;
  bool selftest = true;
  int n_threads = 0;
  const std::atomic<bool>* cancel = nullptr;
  ConvertListener* listener = nullptr;  // may be null
};

// What a finished bundle is, for the caller's report.
struct FinishedBundle {
  BundleManifest manifest;
  uint64_t bytes = 0;  // of all files
  bool cancelled = false;
};

// Requires: every tensor of `plan` is finished in `writer` and all other files lie in its partial folder. When
// cancelled, the partial folder stays and the same call can be made again. Errors also when the model that was written
// does not load.
Result<FinishedBundle> FinishBundle(BundleWriter& writer, const Plan& plan, const FinishOptions& options);

// SHA-256 of a whole file, in lower-case hex, with its size.
Result<BundleFile> HashFile(const std::string& folder, const std::string& name, const std::atomic<bool>* cancel,
                            ConvertListener* listener);

// The text of `manifest` with its seal.
std::string SealedManifest(const BundleManifest& manifest);

// "2026-11-30T23:00:00Z", now.
std::string UtcNow();

}  // namespace minicpm
