// NEON form of qmatmul.h with sdot: a panel's 64 bytes are four registers of 4 rows. Weights (at most 127) are as good
// signed as unsigned. Tested under emulation; its speed was never measured.
#include <arm_neon.h>

#include <cstring>
#include <limits>

#include "kernels/qmatmul/qmatmul_dot.h"

namespace minicpm::kernels {
namespace {

struct Neon {
  static constexpr int kTileRows = 4;
  struct Sum {
    int32x4_t a, b, c, d;  // rows 0-3, 4-7, 8-11, 12-15
  };
  struct Piece {
    int8x16_t a, b, c, d;
  };
  using Columns = int8x16_t;
  struct Floats {
    float32x4_t a, b, c, d;
  };

  static int8x16_t Load(const std::byte* p) { return vld1q_s8(reinterpret_cast<const int8_t*>(p)); }
  static Piece LoadPiece(const std::byte* p) { return {Load(p), Load(p + 16), Load(p + 32), Load(p + 48)}; }
  static int8x16_t Low(int8x16_t v) { return vandq_s8(v, vdupq_n_s8(15)); }
  static int8x16_t High(int8x16_t v) { return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(v), 4)); }
  static void SplitNibbles(const std::byte* p, Piece& first, Piece& second) {
    const Piece both = LoadPiece(p);
    first = {Low(both.a), Low(both.b), Low(both.c), Low(both.d)};
    second = {High(both.a), High(both.b), High(both.c), High(both.d)};
  }
  static void Prefetch(const std::byte* p) { __builtin_prefetch(p + 1024); }
  static Columns LoadColumns(const int8_t* q) { return vld1q_s8(q); }
  static Sum Broadcast(int32_t v) {
    const int32x4_t all = vdupq_n_s32(v);
    return {all, all, all, all};
  }
  template <int kLane>
  static Sum Dot(const Sum& sum, const Piece& w, Columns x) {
    return {vdotq_laneq_s32(sum.a, w.a, x, kLane), vdotq_laneq_s32(sum.b, w.b, x, kLane),
            vdotq_laneq_s32(sum.c, w.c, x, kLane), vdotq_laneq_s32(sum.d, w.d, x, kLane)};
  }
  // In the order of rows: the second and the third four change places.
  static Sum LoadSubScales(const std::byte* t) {
    const int8x16_t v = Load(t);
    const int16x8_t low = vmovl_s8(vget_low_s8(v));
    const int16x8_t high = vmovl_s8(vget_high_s8(v));
    return {vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(low)),
            vmovl_s16(vget_high_s16(high))};
  }
  static Sum MultiplyAdd(const Sum& sum, const Sum& x, const Sum& y) {
    return {vmlaq_s32(sum.a, x.a, y.a), vmlaq_s32(sum.b, x.b, y.b), vmlaq_s32(sum.c, x.c, y.c),
            vmlaq_s32(sum.d, x.d, y.d)};
  }

  static Floats ZeroFloats() {
    const float32x4_t zero = vdupq_n_f32(0);
    return {zero, zero, zero, zero};
  }
  static Floats LoadFloats(const float* p) {
    return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
  }
  static void StoreFloats(float* p, const Floats& v) {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
  }
  static Floats FloatMultiplyAdd(const Sum& x, float scale, const Floats& c) {
    return {vfmaq_n_f32(c.a, vcvtq_f32_s32(x.a), scale), vfmaq_n_f32(c.b, vcvtq_f32_s32(x.b), scale),
            vfmaq_n_f32(c.c, vcvtq_f32_s32(x.c), scale), vfmaq_n_f32(c.d, vcvtq_f32_s32(x.d), scale)};
  }
  static Floats Multiply(const Floats& x, const Floats& y) {
    return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
  }
};

// The largest magnitude of n floats, n a multiple of 16, compared as integers: what is not finite comes out on top.
uint32_t MostMagnitude(const float* x, int64_t n) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7fffffffu);
  uint32x4_t most = vdupq_n_u32(0);
  for (int64_t i = 0; i < n; i += 4) {
    most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), magnitude));
  }
  return vmaxvq_u32(most);
}

inline int16x4_t RoundFour(const float* x, float factor) {
  return vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), factor)));
}

// q = round(x * factor), 16 values; returns their sum.
inline int32_t QuantizeSixteen(const float* x, float factor, int8_t* q) {
  const int16x8_t low = vcombine_s16(RoundFour(x, factor), RoundFour(x + 4, factor));
  const int16x8_t high = vcombine_s16(RoundFour(x + 8, factor), RoundFour(x + 12, factor));
  const int8x16_t all = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
  vst1q_s8(q, all);
  return vaddlvq_s8(all);
}

template <class W>
void Quantize(const float* x, int64_t k, int64_t padded_k, int8_t* q, int16_t* start, float* scale) {
  constexpr ActivationFormat kFormat = W::kFormat;
  alignas(16) float tail[kFormat.block];
  for (int64_t first = 0; first < padded_k; first += kFormat.block) {
    const int64_t n = padded_k - first < kFormat.block ? padded_k - first : kFormat.block;
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
    ++scale;
    int32_t block_start = 0;
    int16_t* const starts = start + first / kFormat.run * 2;
    for (int64_t i = 0; i < n; i += kFormat.run) {
      int32_t sum = 0;
      for (int64_t j = i; j < i + kFormat.run; j += 16) sum += QuantizeSixteen(from + j, factor, q + first + j);
      const int32_t run_start = -kFormat.zero_point * sum;
      block_start += run_start;
      std::memcpy(starts + i / kFormat.run * 2, &run_start, sizeof(run_start));
    }
    if (!W::kNibbles) std::memcpy(starts, &block_start, sizeof(block_start));
  }
}

}  // namespace

extern const QMatmulKernels neon_dotprod_qmatmul = {8,
                                                    64,
                                                    {Quantize<DotInt8>, DotFew<Neon, DotInt8>, DotMany<Neon, DotInt8>},
                                                    {Quantize<DotInt4>, DotFew<Neon, DotInt4>, DotMany<Neon, DotInt4>}};

}  // namespace minicpm::kernels
