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
// A mismatch counts only where the recorded margin was larger than this. With packed weights activations are rounded to
// 8 bits, and the last bit of a float decides which way: then other kernels than the recording ones get as much as
// kSelfTestPackedMargin standard deviations of the logits. On the bundled tiny models the scalar and the AVX2 kernels
// differ by up to 0.12 of them.
inline constexpr double kSelfTestMargin = 1e-3;
inline constexpr double kSelfTestPackedMargin = 0.25;

// The text of selftest.json, made with the scalar kernels. Nothing when cancelled.
Result<std::optional<std::string>> MakeSelfTest(const std::string& folder, int n_threads,
                                                const std::atomic<bool>* cancel);

struct SelfTestResult {
  std::string isa;
  int n_compared = 0;
  int n_decisive = 0;                   // of these, with a margin that counts
  int n_close = 0;                      // another token, but within the margin
  std::vector<std::string> mismatches;  // one sentence each
  bool cancelled = false;
};

// Runs selftest.json of `folder` on the best kernels (isa "") or the given ones.
Result<SelfTestResult> RunSelfTest(const std::string& folder, int n_threads, const std::string& isa,
                                   const std::atomic<bool>* cancel);

}  // namespace minicpm
