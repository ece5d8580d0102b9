// VerifyBundle: is every byte of a bundle what its manifest says, do packed weights keep their promises, and does the
// model still answer as it did when it was made. Not for official checkpoints.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "convert/finish.h"
#include "convert/selftest.h"

namespace minicpm {

struct VerifyOptions {
  std::string folder;
  bool selftest = true;
  int n_threads = 0;  // 0 = all usable cores
  std::string isa;    // "" = best available
  const std::atomic<bool>* cancel = nullptr;
  ConvertListener* listener = nullptr;
};

struct VerifyProblem {
  std::string file;    // name in the bundle
  std::string tensor;  // "" when it is about a file
  std::string what;    // a sentence that names both
};

struct VerifyReport {
  std::vector<VerifyProblem> problems;  // empty = all is well
  std::vector<std::string> notes;
  int64_t n_tensors = 0;  // checked
  int64_t n_files = 0;    // checked, weights and manifest included
  uint64_t n_bytes = 0;   // hashed
  double hash_ms = 0;
  bool has_selftest = false;               // selftest.json is there
  std::optional<SelfTestResult> selftest;  // when it ran
  double selftest_ms = 0;
  bool cancelled = false;
};

// Problems are in the report; errors are only what keeps the check from being made (no such folder, no bundle).
Result<VerifyReport> VerifyBundle(const VerifyOptions& options);

}  // namespace minicpm
