// Scalar truth of qattention.h.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/exp2_poly.h"
#include "kernels/qattention/qattention.h"

namespace minicpm::kernels {
namespace {

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// To the nearest integer, ties to even; |x| < 2^22.
float Nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

uint32_t AbsBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }
constexpr uint32_t kInfinity = 0x7f800000u;

// Factor that brings the largest magnitude to `most`, and its inverse; 0, 0 for nothing.
struct Scale {
  float factor, scale;
};
Scale ScaleFor(uint32_t largest_bits, int most) {
  const float largest = std::bit_cast<float>(largest_bits);
  const float factor = static_cast<float>(most) / largest;
  if (!(factor < INFINITY)) return {0, 0};
  return {factor, largest / static_cast<float>(most)};
}

void Pack(const float* k, int64_t k_stride, const float* v, int64_t v_stride, const QHead& h) {
  const int64_t n = RoundUp(h.n_keys, kQHeadKeys);
  const int64_t dims = RoundUp(h.head_dim, kQHeadDims);
  uint32_t worst = 0;
  for (int64_t j = 0; j < n; ++j) {
    uint32_t largest = 0;
    for (int64_t d = 0; j < h.n_keys && d < h.head_dim; ++d) largest = std::max(largest, AbsBits(k[j * k_stride + d]));
    worst = std::max(worst, largest);
    const Scale s = largest < kInfinity ? ScaleFor(largest, kQHeadKeyMost) : Scale{0, 0};
    h.key_scale[j] = s.scale;
    uint8_t* const panel = h.keys + j / kQHeadKeys * kQHeadKeys * dims + j % kQHeadKeys * 4;
    for (int64_t d = 0; d < dims; ++d) {
      const float x = s.factor == 0 || d >= h.head_dim ? 0.0f : k[j * k_stride + d];
      panel[d / 4 * 64 + d % 4] = static_cast<uint8_t>(static_cast<int>(Nearest(x * s.factor)) + kQHeadKeyZero);
    }
  }
  for (int64_t d = 0; d < dims; ++d) {
    uint32_t largest = 0;
    for (int64_t j = 0; d < h.head_dim && j < h.n_keys; ++j) largest = std::max(largest, AbsBits(v[j * v_stride + d]));
    worst = std::max(worst, largest);
    const Scale s = largest < kInfinity ? ScaleFor(largest, kQHeadMost) : Scale{0, 0};
    h.value_scale[d] = s.scale;
    int16_t* const out = h.values + d / 8 * n * 8 + d % 8 * 2;
    for (int64_t j = 0; j < n; ++j) {
      const float x = s.factor == 0 || j >= h.n_keys ? 0.0f : v[j * v_stride + d];
      out[j / 2 * 16 + j % 2] = static_cast<int16_t>(Nearest(x * s.factor));
    }
  }
  if (worst >= kInfinity) {
    for (int64_t d = 0; d < dims; ++d) h.value_scale[d] = NAN;
  }
}

float Exp2(float x) {
  x = x > -126.0f ? x : -126.0f;
  const float shifted = x + 12582912.0f;
  const float r = x - (shifted - 12582912.0f);
  float p = kExp2Poly[0];
  for (int i = 1; i < 7; ++i) p = std::fma(p, r, kExp2Poly[i]);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23));
}

int64_t ScratchBytes(int64_t n_keys, int64_t head_dim) {
  return RoundUp(n_keys, kQHeadKeys) * 8 + RoundUp(RoundUp(head_dim, kQHeadDims), 64);
}

void AttendRow(const float* q, float scale, const QHead& h, float* out, std::byte* scratch) {
  const int64_t n = RoundUp(h.n_keys, kQHeadKeys);
  const int64_t dims = RoundUp(h.head_dim, kQHeadDims);
  auto* const score = reinterpret_cast<float*>(scratch);
  auto* const p = reinterpret_cast<int32_t*>(scratch + n * 4);
  auto* const x = reinterpret_cast<int8_t*>(scratch + n * 8);
  uint32_t largest = 0;
  for (int64_t d = 0; d < h.head_dim; ++d) largest = std::max(largest, AbsBits(q[d]));
  if (largest >= kInfinity) {
    for (int64_t d = 0; d < h.head_dim; ++d) out[d] = NAN;
    return;
  }
  const Scale s = ScaleFor(largest, kQHeadMost);
  for (int64_t d = 0; d < dims; ++d) {
    x[d] = static_cast<int8_t>(d < h.head_dim && s.factor != 0 ? Nearest(q[d] * s.factor) : 0.0f);
  }
  const float x_scale = s.scale * (scale * 1.44269504f);
  float top = -INFINITY;
  for (int64_t j = 0; j < h.n_keys; ++j) {
    const uint8_t* const panel = h.keys + j / kQHeadKeys * kQHeadKeys * dims + j % kQHeadKeys * 4;
    int32_t sum = 0;
    for (int64_t d = 0; d < dims; ++d) sum += x[d] * (panel[d / 4 * 64 + d % 4] - kQHeadKeyZero);
    score[j] = static_cast<float>(sum) * (h.key_scale[j] * x_scale);
    top = score[j] > top ? score[j] : top;
  }
  int32_t total = 0;
  for (int64_t j = 0; j < h.n_keys; ++j) {
    p[j] = static_cast<int32_t>(Nearest(Exp2(score[j] - top) * kQHeadOne));
    total += p[j];
  }
  const float share = 1.0f / static_cast<float>(total);
  for (int64_t d = 0; d < h.head_dim; ++d) {
    const int16_t* const v = h.values + d / 8 * n * 8 + d % 8 * 2;
    float value = 0;
    for (int64_t first = 0; first < h.n_keys; first += kQHeadSumKeys) {
      int32_t sum = 0;
      for (int64_t j = first; j < std::min(h.n_keys, first + kQHeadSumKeys); ++j) sum += p[j] * v[j / 2 * 16 + j % 2];
      value = first == 0 ? static_cast<float>(sum) : value + static_cast<float>(sum);
    }
    out[d] = value * h.value_scale[d] * share;
  }
}

void Attend(const float* q, int64_t q_stride, int64_t rows, float scale, const QHead& head, float* out,
            int64_t out_stride, std::byte* scratch) {
  for (int64_t r = 0; r < rows; ++r) AttendRow(q + r * q_stride, scale, head, out + r * out_stride, scratch);
}

}  // namespace

extern const QAttentionKernels scalar_qattention = {Pack, ScratchBytes, Attend};

}  // namespace minicpm::kernels
