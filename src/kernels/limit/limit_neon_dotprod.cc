// NEON form of limit.h with sdot. The float kernels of this table are the scalar ones. Never measured on a CPU.
#include <arm_neon.h>

#include "kernels/limit/limit.h"

namespace minicpm::kernels {
namespace {

uint64_t Read(const void* data, int64_t bytes) {
  const auto* p = static_cast<const uint64_t*>(data);
  const auto* const end = p + bytes / 8;
  uint64x2_t x[4] = {vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0)};
  for (; p < end; p += 32) {
    for (int i = 0; i < 16; ++i) x[i % 4] = veorq_u64(x[i % 4], vld1q_u64(p + 2 * i));
  }
  const uint64x2_t all = veorq_u64(veorq_u64(x[0], x[1]), veorq_u64(x[2], x[3]));
  return vgetq_lane_u64(all, 0) ^ vgetq_lane_u64(all, 1);
}

constexpr int kSums = 16;

// The arithmetic is opaque to the compiler, which would otherwise move it out of the loop.
float MultiplyAdd(int64_t turns) {
  float32x4_t sum[kSums];
  for (float32x4_t& s : sum) s = vdupq_n_f32(1);
  const float32x4_t factor = vdupq_n_f32(0.001f);
  const float32x4_t term = vdupq_n_f32(0.999f);
  for (; turns > 0; --turns) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum[i]) : "w"(factor), "w"(term));
  }
  float total = 0;
  for (const float32x4_t s : sum) total += vaddvq_f32(s);
  return total;
}

int32_t IntegerMix(int64_t turns) {
  int32x4_t sum[kSums];
  for (int32x4_t& s : sum) s = vdupq_n_s32(0);
  const int8x16_t x = vdupq_n_s8(5);
  const int8x16_t w = vdupq_n_s8(-3);
  for (; turns > 0; --turns) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) asm volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum[i]) : "w"(w), "w"(x));
  }
  uint32_t total = 0;
  for (const int32x4_t s : sum) total += static_cast<uint32_t>(vaddvq_s32(s));
  return static_cast<int32_t>(total);
}

}  // namespace

extern const LimitKernels neon_dotprod_limit = {Read,       MultiplyAdd, kSums * 8, IntegerMix,
                                                kSums * 32, IntegerMix,  kSums * 32};

}  // namespace minicpm::kernels
