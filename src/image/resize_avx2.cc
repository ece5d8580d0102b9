// Resize kernels for AVX2. A 22-bit weight is split into two 16-bit halves, so that vpmaddwd sums two taps per lane;
// all sums are modulo 2^32 and the true total fits, so the split is exact. Only this file is compiled with -mavx2.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "image/resize_kernels.h"

namespace minicpm {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

// 16 bytes at p to both lanes.
__m256i LoadTwice(const uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Weights of 4 taps: lane 0 holds (w0, w1) four times, lane 1 (w2, w3).
__m256i LoadWeights(const int16_t* p, __m256i pick) {
  return _mm256_shuffle_epi8(_mm256_castpd_si256(_mm256_broadcast_sd(reinterpret_cast<const double*>(p))), pick);
}

// Red, green, blue sums of one pixel, as 4 x i32 (the last one is zero before rounding).
__m128i Total(__m256i hi, __m256i lo) {
  const __m256i both = _mm256_add_epi32(_mm256_slli_epi32(hi, 16), lo);
  const __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  return _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kFractionBits);
}

void Horizontal(const TapTable& taps, const uint8_t* const in[kRowBlock], uint8_t* const out[kRowBlock]) {
  // From 12 bytes (4 RGB pixels) to 16-bit pairs: lane 0 = r0 r1 g0 g1 b0 b1 0 0, lane 1 the same of pixels 2 and 3.
  const __m256i spread = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                          6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i pick = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                        4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  const int16_t* weight_hi = taps.hi;
  const int16_t* weight_lo = taps.lo;
  for (int x = 0; x < taps.n_out; ++x) {
    const int64_t offset = 3 * static_cast<int64_t>(taps.first[x]);
    const uint8_t* p0 = in[0] + offset;
    const uint8_t* p1 = in[1] + offset;
    const uint8_t* p2 = in[2] + offset;
    const uint8_t* p3 = in[3] + offset;
    __m256i hi0 = _mm256_setzero_si256(), hi1 = hi0, hi2 = hi0, hi3 = hi0;
    __m256i lo0 = hi0, lo1 = hi0, lo2 = hi0, lo3 = hi0;
    for (int k = 0; k < taps.n_taps; k += 4) {
      const __m256i wh = LoadWeights(weight_hi, pick);
      const __m256i wl = LoadWeights(weight_lo, pick);
      weight_hi += 4;
      weight_lo += 4;
      const int64_t at = 3 * static_cast<int64_t>(k);
      const __m256i v0 = _mm256_shuffle_epi8(LoadTwice(p0 + at), spread);
      const __m256i v1 = _mm256_shuffle_epi8(LoadTwice(p1 + at), spread);
      const __m256i v2 = _mm256_shuffle_epi8(LoadTwice(p2 + at), spread);
      const __m256i v3 = _mm256_shuffle_epi8(LoadTwice(p3 + at), spread);
      hi0 = _mm256_add_epi32(hi0, _mm256_madd_epi16(v0, wh));
      lo0 = _mm256_add_epi32(lo0, _mm256_madd_epi16(v0, wl));
      hi1 = _mm256_add_epi32(hi1, _mm256_madd_epi16(v1, wh));
      lo1 = _mm256_add_epi32(lo1, _mm256_madd_epi16(v1, wl));
      hi2 = _mm256_add_epi32(hi2, _mm256_madd_epi16(v2, wh));
      lo2 = _mm256_add_epi32(lo2, _mm256_madd_epi16(v2, wl));
      hi3 = _mm256_add_epi32(hi3, _mm256_madd_epi16(v3, wh));
      lo3 = _mm256_add_epi32(lo3, _mm256_madd_epi16(v3, wl));
    }
    const __m128i low = _mm_packs_epi32(Total(hi0, lo0), Total(hi1, lo1));
    const __m128i high = _mm_packs_epi32(Total(hi2, lo2), Total(hi3, lo3));
    const __m128i bytes = _mm_packus_epi16(low, high);  // r g b 0 of rows 0..3
    const int64_t at = 3 * static_cast<int64_t>(x);
    const auto b0 = static_cast<uint32_t>(_mm_cvtsi128_si32(bytes));
    const auto b1 = static_cast<uint32_t>(_mm_extract_epi32(bytes, 1));
    const auto b2 = static_cast<uint32_t>(_mm_extract_epi32(bytes, 2));
    const auto b3 = static_cast<uint32_t>(_mm_extract_epi32(bytes, 3));
    // Four bytes at a time where the fourth is overwritten by the next pixel.
    const size_t n = x + 1 < taps.n_out ? 4 : 3;
    if (n == 4) {
      std::memcpy(out[0] + at, &b0, 4);
      std::memcpy(out[1] + at, &b1, 4);
      std::memcpy(out[2] + at, &b2, 4);
      std::memcpy(out[3] + at, &b3, 4);
    } else {
      std::memcpy(out[0] + at, &b0, 3);
      std::memcpy(out[1] + at, &b1, 3);
      std::memcpy(out[2] + at, &b2, 3);
      std::memcpy(out[3] + at, &b3, 3);
    }
  }
}

__m256i Finish(__m256i hi, __m256i lo) {
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(hi, 16), lo), _mm256_set1_epi32(kHalf));
  return _mm256_srai_epi32(sum, kFractionBits);
}

// 32 columns. Unpack order and pack order cancel out, so the bytes leave in the order they came.
void Columns32(const int16_t* hi, const int16_t* lo, int n_taps, const uint8_t* const* in, int64_t at, uint8_t* out) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i hi0 = zero, hi1 = zero, hi2 = zero, hi3 = zero;
  __m256i lo0 = zero, lo1 = zero, lo2 = zero, lo3 = zero;
  for (int k = 0; k < n_taps; k += 2) {
    int32_t pair_hi;
    int32_t pair_lo;
    std::memcpy(&pair_hi, hi + k, 4);
    std::memcpy(&pair_lo, lo + k, 4);
    const __m256i wh = _mm256_set1_epi32(pair_hi);
    const __m256i wl = _mm256_set1_epi32(pair_lo);
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[k] + at));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[k + 1] + at));
    const __m256i ab_low = _mm256_unpacklo_epi8(a, b);
    const __m256i ab_high = _mm256_unpackhi_epi8(a, b);
    const __m256i v0 = _mm256_unpacklo_epi8(ab_low, zero);
    const __m256i v1 = _mm256_unpackhi_epi8(ab_low, zero);
    const __m256i v2 = _mm256_unpacklo_epi8(ab_high, zero);
    const __m256i v3 = _mm256_unpackhi_epi8(ab_high, zero);
    hi0 = _mm256_add_epi32(hi0, _mm256_madd_epi16(v0, wh));
    lo0 = _mm256_add_epi32(lo0, _mm256_madd_epi16(v0, wl));
    hi1 = _mm256_add_epi32(hi1, _mm256_madd_epi16(v1, wh));
    lo1 = _mm256_add_epi32(lo1, _mm256_madd_epi16(v1, wl));
    hi2 = _mm256_add_epi32(hi2, _mm256_madd_epi16(v2, wh));
    lo2 = _mm256_add_epi32(lo2, _mm256_madd_epi16(v2, wl));
    hi3 = _mm256_add_epi32(hi3, _mm256_madd_epi16(v3, wh));
    lo3 = _mm256_add_epi32(lo3, _mm256_madd_epi16(v3, wl));
  }
  const __m256i low = _mm256_packs_epi32(Finish(hi0, lo0), Finish(hi1, lo1));
  const __m256i high = _mm256_packs_epi32(Finish(hi2, lo2), Finish(hi3, lo3));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at), _mm256_packus_epi16(low, high));
}

void Vertical(const int32_t* weight, const int16_t* hi, const int16_t* lo, int n_taps, const uint8_t* const* in,
              int64_t n_bytes, uint8_t* out) {
  int64_t at = 0;
  for (; at + 32 <= n_bytes; at += 32) Columns32(hi, lo, n_taps, in, at, out);
  if (at == n_bytes) return;
  if (n_bytes >= 32) {  // once more over the last 32, some of them a second time
    Columns32(hi, lo, n_taps, in, n_bytes - 32, out);
    return;
  }
  for (; at < n_bytes; ++at) {
    uint32_t sum = kHalf;
    for (int k = 0; k < n_taps; ++k) sum += static_cast<uint32_t>(weight[k]) * in[k][at];
    const int32_t v = static_cast<int32_t>(sum) >> kFractionBits;
    out[at] = static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v);
  }
}

}  // namespace

extern const ResizeKernels kResizeKernelsAvx2 = {"avx2", Horizontal, Vertical};

}  // namespace minicpm
