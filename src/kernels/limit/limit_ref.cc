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

constexpr int kIntegers = 64;

// Baseline instruction sets have no products of 8 bits: 16-bit ones stand for both mixes. The factors change from turn
// to turn, or the compiler would multiply once.
int32_t IntegerMix(int64_t turns) {
  alignas(64) int16_t x[kIntegers];
  alignas(64) int16_t w[kIntegers];
  for (int i = 0; i < kIntegers; ++i) {
    x[i] = static_cast<int16_t>(i % 7 - 3);
    w[i] = static_cast<int16_t>(i % 5 - 2);
  }
  uint32_t total = 0;
  for (int64_t t = 0; t < turns; ++t) {
    asm volatile("" : : "r"(x), "r"(w) : "memory");
    int32_t sum = 0;
    for (int i = 0; i < kIntegers; ++i) sum += x[i] * w[i];
    total += static_cast<uint32_t>(sum);
  }
  return static_cast<int32_t>(total);
}

}  // namespace

extern const LimitKernels scalar_limit = {Read,          MultiplyAdd, 2 * kSums,    IntegerMix,
                                          2 * kIntegers, IntegerMix,  2 * kIntegers};

}  // namespace minicpm::kernels
