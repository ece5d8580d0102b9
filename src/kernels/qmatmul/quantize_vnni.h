// How the x86 instruction sets with 8-bit dot products write the starts of qmatmul_dot.h. Included by their files only.
#pragma once

#include "kernels/qmatmul/quantize_avx2.h"

namespace minicpm::kernels {
namespace {

// One start for each run.
struct DotFormat4 {
  static constexpr int64_t kRun = kInt4Activation.run;
  static constexpr int64_t kBlock = kInt4Activation.block;
  static void PutStart(__m128i pairs, int64_t run, int16_t* start) {
    const int32_t sum = _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0x55)));
    const int32_t v = -kInt4Activation.zero_point * sum;
    std::memcpy(start + 2 * run, &v, sizeof(v));
  }
};

// One for the block, in its first run.
struct DotFormat8 {
  static constexpr int64_t kRun = kInt8Activation.run;
  static constexpr int64_t kBlock = kInt8Activation.block;
  static void PutStart(__m128i pairs, int64_t run, int16_t* start) {
    const int32_t sum = _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0x55)));
    int32_t v = 0;
    std::memcpy(start + 2 * run, &v, sizeof(v));
    std::memcpy(&v, start, sizeof(v));
    v -= kInt8Activation.zero_point * sum;
    std::memcpy(start, &v, sizeof(v));
  }
};

}  // namespace
}  // namespace minicpm::kernels
