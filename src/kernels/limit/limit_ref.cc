// Baseline form of limit.h: whatever the compiler makes of it without optional instructions.
#include "kernels/limit/limit.h"

namespace minicpm::kernels {
namespace {

uint64_t Read(const void* data, int64_t bytes) {
  const auto* words = static_cast<const uint64_t*>(data);
  uint64_t x[8] = {};
  for (int64_t i = 0; i < bytes / 8; i += 8) {
    for (int j = 0; j < 8; ++j) x[j] ^= words[i + j];
  }
  return x[0] ^ x[1] ^ x[2] ^ x[3] ^ x[4] ^ x[5] ^ x[6] ^ x[7];
}

constexpr int kSums = 32;

float MultiplyAdd(int64_t turns) {
  float sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = 1.0f + static_cast<float>(turns & 1) * static_cast<float>(i);
  for (int64_t t = 0; t < turns; ++t) {
    for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * 0.999f + 0.001f;
  }
  float total = 0;
  for (const float s : sum) total += s;
  return total;
}

}  // namespace

extern const LimitKernels scalar_limit = {Read, MultiplyAdd, 2 * kSums};

}  // namespace minicpm::kernels
