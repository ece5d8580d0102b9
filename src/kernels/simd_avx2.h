// Small vocabulary for the AVX2 kernel files. Included by *_avx2.cc only; everything has internal linkage, so that no
// code compiled for AVX2 can replace a function of another file at link time.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/exp2_poly.h"

namespace minicpm::kernels {
namespace {

using Vec = __m256;
inline constexpr int kVec = 8;

inline Vec Zero() { return _mm256_setzero_ps(); }
inline Vec Set(float v) { return _mm256_set1_ps(v); }
inline Vec Load(const float* p) { return _mm256_loadu_ps(p); }
inline void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
// a * b + c
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

// First n of 8 lanes, 0 <= n <= 8.
inline __m256i FirstLanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// Never touches memory past p[n - 1]; missing lanes are 0.
inline Vec LoadFirst(const float* p, int64_t n) { return _mm256_maskload_ps(p, FirstLanes(n)); }
inline void StoreFirst(float* p, int64_t n, Vec v) { _mm256_maskstore_ps(p, FirstLanes(n), v); }

// 8 consecutive 16-bit numbers as float32.
inline Vec WidenBf16(__m128i h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)); }
inline Vec WidenF16(__m128i h) { return _mm256_cvtph_ps(h); }
inline __m128i Load16(const uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline __m128i Load16First(const uint16_t* p, int64_t n) {
  alignas(16) uint16_t lanes[8] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(lanes));
}

// Storage formats of weights and of cached keys and values: how to read 8, or the first n of 8, as float32.
struct LoadF32 {
  using Type = float;
  static Vec Get(const float* p) { return Load(p); }
  static Vec GetFirst(const float* p, int64_t n) { return LoadFirst(p, n); }
};
struct LoadBf16 {
  using Type = uint16_t;
  static Vec Get(const uint16_t* p) { return WidenBf16(Load16(p)); }
  static Vec GetFirst(const uint16_t* p, int64_t n) { return WidenBf16(Load16First(p, n)); }
};
struct LoadF16 {
  using Type = uint16_t;
  static Vec Get(const uint16_t* p) { return WidenF16(Load16(p)); }
  static Vec GetFirst(const uint16_t* p, int64_t n) { return WidenF16(Load16First(p, n)); }
};

// r[i] becomes column i.
inline void Transpose8x8(Vec r[8]) {
  const Vec a0 = _mm256_unpacklo_ps(r[0], r[1]);
  const Vec a1 = _mm256_unpackhi_ps(r[0], r[1]);
  const Vec a2 = _mm256_unpacklo_ps(r[2], r[3]);
  const Vec a3 = _mm256_unpackhi_ps(r[2], r[3]);
  const Vec a4 = _mm256_unpacklo_ps(r[4], r[5]);
  const Vec a5 = _mm256_unpackhi_ps(r[4], r[5]);
  const Vec a6 = _mm256_unpacklo_ps(r[6], r[7]);
  const Vec a7 = _mm256_unpackhi_ps(r[6], r[7]);
  const Vec b0 = _mm256_shuffle_ps(a0, a2, 0x44);
  const Vec b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const Vec b2 = _mm256_shuffle_ps(a1, a3, 0x44);
  const Vec b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const Vec b4 = _mm256_shuffle_ps(a4, a6, 0x44);
  const Vec b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const Vec b6 = _mm256_shuffle_ps(a5, a7, 0x44);
  const Vec b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  r[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
  r[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
  r[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
  r[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
  r[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
  r[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
  r[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
  r[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

// Sum of the 8 lanes as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)).
inline float SumLanes(Vec v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float MaxLanes(Vec v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// exp(x), relative error below 1.3e-7; 0 below -87.33 and the largest power near 88.37 (no infinity); NaN stays NaN.
// x = n ln 2 + r with ln 2 in two parts; exp(r) by a polynomial of degree 6 fitted on |r| <= ln 2 / 2 (error 3e-9).
inline Vec Exp(Vec x) {
  const Vec lowest = Set(-87.33654f);
  const Vec alive = _mm256_cmp_ps(x, lowest, _CMP_NLT_UQ);
  x = _mm256_min_ps(Set(88.37626f), _mm256_max_ps(lowest, x));  // operand order keeps NaN
  const Vec n = _mm256_round_ps(Mul(x, Set(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Vec r = _mm256_fnmadd_ps(n, Set(0.693145752f), x);
  r = _mm256_fnmadd_ps(n, Set(1.42860677e-6f), r);
  Vec p = Set(0.001381453825160861f);
  p = Fma(p, r, Set(0.00836874544620514f));
  p = Fma(p, r, Set(0.04166838899254799f));
  p = Fma(p, r, Set(0.1666652113199234f));
  p = Fma(p, r, Set(0.4999999403953552f));
  p = Fma(Mul(r, r), p, r);
  p = Add(p, Set(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_and_ps(Mul(p, _mm256_castsi256_ps(exponent)), alive);
}

// 2^x for -126 <= x <= 0 (what is lower counts as -126); relative error below 1.3e-7; NaN stays NaN. x = n + r, n by
// adding a constant that pushes the fraction out; 2^r by the polynomial; n goes into the exponent.
inline Vec Exp2(Vec x) {
  x = _mm256_max_ps(Set(-126.0f), x);  // operand order keeps NaN
  const Vec shifted = Add(x, Set(12582912.0f));
  const Vec r = _mm256_sub_ps(x, _mm256_sub_ps(shifted, Set(12582912.0f)));
  Vec p = Set(kExp2Poly[0]);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = Fma(p, r, Set(kExp2Poly[i]));
  const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
}

}  // namespace
}  // namespace minicpm::kernels
