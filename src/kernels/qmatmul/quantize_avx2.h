// Quantises a row of activations with AVX2: QMatmulKernels' quantize for every x86 instruction set. Included by their
// files only; everything has internal linkage. Not for weights (quant/packed.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/qmatmul/qmatmul.h"

namespace minicpm::kernels {
namespace {

// 16 floats times factor, rounded to nearest even, as 16-bit numbers in order.
inline __m256i RoundSixteen(const float* x, __m256 factor) {
  const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), factor));
  const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), factor));
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
}

// The largest magnitude of n floats, n a multiple of 16. As integers: the order is the same, and what is not finite
// comes out above everything else instead of being lost in a comparison.
inline uint32_t MostMagnitude(const float* x, int64_t n) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i a = _mm256_setzero_si256();
  __m256i b = a;
  for (int64_t i = 0; i < n; i += 16) {
    const __m256i u = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i + 8));
    a = _mm256_max_epi32(a, _mm256_and_si256(u, magnitude));
    b = _mm256_max_epi32(b, _mm256_and_si256(v, magnitude));
  }
  a = _mm256_max_epi32(a, b);
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

// The pairs (k % 4 < 2, the others) of the sums of one run, in the first two of four 32-bit lanes.
template <class Format>
inline __m128i QuantizeRun(const float* x, __m256 factor, int8_t* q) {
  __m256i pairs = _mm256_setzero_si256();
  for (int64_t i = 0; i < Format::kRun; i += 16) {
    const __m256i v = RoundSixteen(x + i, factor);
    pairs = _mm256_add_epi32(pairs, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
    _mm_store_si128(reinterpret_cast<__m128i*>(q + i),
                    _mm_packs_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
  }
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  return _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
}

// Format: kRun, kBlock, kZero, and PutStart(pairs, run in block, start of the block).
template <class Format>
void Quantize(const float* x, int64_t k, int64_t padded_k, int8_t* q, int16_t* start, float* scale) {
  constexpr int64_t kBlock = Format::kBlock;
  alignas(32) float tail[kBlock];
  for (int64_t first = 0; first < padded_k; first += kBlock) {
    const int64_t n = padded_k - first < kBlock ? padded_k - first : kBlock;
    const float* from = x + first;
    if (k - first < n) {
      std::memset(tail, 0, sizeof(tail));
      if (k > first) std::memcpy(tail, from, static_cast<size_t>(k - first) * sizeof(float));
      from = tail;
    }
    const uint32_t most = MostMagnitude(from, n);
    float largest;
    std::memcpy(&largest, &most, sizeof(largest));
    float factor = 127.0f / largest;
    *scale = largest / 127.0f;
    if (most >= 0x7f800000u || factor > std::numeric_limits<float>::max()) {
      std::memset(tail, 0, sizeof(tail));  // also because a product of infinity and 0 is not 0
      from = tail;
      factor = 0;
      *scale = most >= 0x7f800000u ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    }
    const __m256 factors = _mm256_set1_ps(factor);
    for (int64_t i = 0; i < n; i += Format::kRun) {
      Format::PutStart(QuantizeRun<Format>(from + i, factors, q + first + i), i / Format::kRun,
                       start + first / Format::kRun * 2);
    }
    ++scale;
  }
}

}  // namespace
}  // namespace minicpm::kernels
