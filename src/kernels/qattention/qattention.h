// Softmax attention of one head with 8-bit queries, keys and values, all keys visible: the vision tower's, where keys
// are used once by every query. Not for cached keys of a language model: see kernels/attention.
//   s_j = float(sum over d of x_d k_jd) * (key_scale_j * (x_scale * scale * log2 e))
//   p_j = round(8191 * 2^(s_j - max s)), to nearest even;  out_d = (float(sum of p_j v_jd) * value_scale_d) / sum of
//   p_j
// Sums are exact in integers, the float steps have one order (noted below), so all instruction sets and any cut of the
// rows give the same bits. 13-bit probabilities keep what a flat tail adds up to beside a sharp peak: 8 bits would drop
// everything below 1/510 of the largest.
//
// Ranges: keys are 7 bits (-63..63, stored + 64), queries 8 (-127..127): a 16-bit sum of 4 products, begun at - 64 *
// (sum of those x), ends within 4 * 63 * 127 = 32004, and no pair exceeds 2 * 127 * 127. Values are 8 bits: 1024 keys
// add up to at most 1024 * 8191 * 127 < 2^31; after every 1024 keys the sum is added to a float.
#pragma once

#include <cstddef>
#include <cstdint>

namespace minicpm::kernels {

inline constexpr int64_t kQHeadKeys = 16;       // keys are padded to a multiple of this
inline constexpr int64_t kQHeadDims = 8;        // dimensions are padded to a multiple of this
inline constexpr int64_t kQHeadSumKeys = 1024;  // keys whose products are summed before the sum becomes a float
inline constexpr int kQHeadKeyMost = 63;
inline constexpr int kQHeadKeyZero = 64;
inline constexpr int kQHeadMost = 127;       // of queries and values
inline constexpr float kQHeadOne = 8191.0f;  // probability 1

// Keys and values of one head in 8 bits. n' and d' are n_keys and head_dim with padding.
struct QHead {
  uint8_t* keys;       // [n' / 16][d' / 4][16 keys][4 dims], + 64
  float* key_scale;    // [n'], 0 for padding
  int16_t* values;     // [d' / 8][n' / 2][8 dims][2 keys]
  float* value_scale;  // [d']; all NaN when some key or value is not finite
  int64_t n_keys;
  int64_t head_dim;
};

struct QAttentionKernels {
  // Fills a QHead from k, v [n_keys, head_dim] f32 with strides in floats. Scales: largest |k| of a key / 63, largest
  // |v| of a dimension / 127; zero where that is 0 or its inverse would be infinite. Rounds to nearest even.
  void (*pack)(const float* k, int64_t k_stride, const float* v, int64_t v_stride, const QHead& head);
  int64_t (*scratch_bytes)(int64_t n_keys, int64_t head_dim);
  // q, out [rows, head_dim] f32. scratch is 64-byte aligned. A row of q that is not finite gives NaN.
  void (*attend)(const float* q, int64_t q_stride, int64_t rows, float scale, const QHead& head, float* out,
                 int64_t out_stride, std::byte* scratch);
};

#define MINICPM_ISA(name) extern const QAttentionKernels name##_qattention;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
