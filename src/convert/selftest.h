// The self-test of a bundle: what the model answers to two fixed prompts, written down when it was made and compared
// later, on other machines and kernels. Not for judging answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace minicpm {

inline constexpr int kSelfTestTokens = 16;
inline constexpr double kSelfTestMargin = 1e-3;  // a mismatch counts only where the margin was larger

// The text of selftest.json, made with the scalar kernels. Nothing when cancelled.
Result<std::optional<std::string>> MakeSelfTest(const std::string& folder, int n_threads,
                                                const std::atomic<bool>* cancel);

struct SelfTestResult {
  std::string isa;
  int n_compared = 0;
  int n_close = 0;                      // another token, but within the margin
  std::vector<std::string> mismatches;  // one sentence each
  bool cancelled = false;
};

// Runs selftest.json of `folder` on the best kernels (isa "") or the given ones.
Result<SelfTestResult> RunSelfTest(const std::string& folder, int n_threads, const std::string& isa,
                                   const std::atomic<bool>* cancel);

}  // namespace minicpm
