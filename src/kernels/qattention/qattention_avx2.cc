// AVX2 form of qattention.h: 12 queries at a time. Scores in tiles of 3 queries by 16 keys, from bytes; then the whole
// rows' softmax; then values in tiles of 3 queries by 24 dimensions, from 16-bit pairs. Keys and values of a head stay
// in the second-level cache.
#include "kernels/qattention/qattention.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

constexpr int64_t kGroupRows = 12;
constexpr int kTileRows = 3;         // with 4, sums and keys need more than the 16 registers
constexpr int64_t kBlockKeys = 256;  // divides kQHeadSumKeys; 24 dimensions of their values are 12 KiB
constexpr int64_t kSumStride = 24;   // dimensions worked on at a time
constexpr int kInfinity = 0x7f800000;

inline int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

inline __m256i AbsBits(Vec v) { return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)); }
inline int LargestLane(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtsi128_si32(m);
}
inline float FloatOf(int bits) { return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits))); }

int LargestBits(const float* x, int64_t n) {
  __m256i m = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) m = _mm256_max_epi32(m, AbsBits(Load(x + i)));
  if (i < n) m = _mm256_max_epi32(m, AbsBits(LoadFirst(x + i, n - i)));
  return LargestLane(m);
}

struct Scale {
  float factor, scale;
};
inline Scale ScaleFor(int largest_bits, int most) {
  if (largest_bits >= kInfinity) return {0, 0};
  const float largest = FloatOf(largest_bits);
  const float factor = static_cast<float>(most) / largest;
  if (!(factor < __builtin_inff())) return {0, 0};
  return {factor, largest / static_cast<float>(most)};
}

// 8 floats times factor as integers; 0 for factor 0 whatever x is.
inline __m256i Quantised(Vec x, float factor) {
  return factor == 0 ? _mm256_setzero_si256() : _mm256_cvtps_epi32(Mul(x, Set(factor)));
}
inline Vec LoadDims(const float* p, int64_t d, int64_t n) {
  return n - d >= kVec ? Load(p + d) : LoadFirst(p + d, n - d);
}

// 8 integers as bytes: the first 4 in the lowest 4 bytes of the low half, the others in those of the high half.
inline __m256i Bytes(__m256i v) {
  const __m256i words = _mm256_packs_epi32(v, v);
  return _mm256_packs_epi16(words, words);
}
inline void StoreInt(void* p, int v) { __builtin_memcpy(p, &v, sizeof v); }

int PackKeys(const float* k, int64_t stride, const QHead& h, int64_t n, int64_t dims) {
  int worst = 0;
  for (int64_t j = 0; j < n; ++j) {
    const bool real = j < h.n_keys;
    const float* const row = k + j * stride;
    const int largest = real ? LargestBits(row, h.head_dim) : 0;
    worst = largest > worst ? largest : worst;
    const Scale s = ScaleFor(largest, kQHeadKeyMost);
    h.key_scale[j] = s.scale;
    uint8_t* out = h.keys + j / kQHeadKeys * kQHeadKeys * dims + j % kQHeadKeys * 4;
    for (int64_t d = 0; d < dims; d += kVec, out += 128) {
      const __m256i q = real ? Quantised(LoadDims(row, d, h.head_dim), s.factor) : _mm256_setzero_si256();
      const __m256i bytes = Bytes(_mm256_add_epi32(q, _mm256_set1_epi32(kQHeadKeyZero)));
      StoreInt(out, _mm256_extract_epi32(bytes, 0));
      StoreInt(out + 64, _mm256_extract_epi32(bytes, 4));
    }
  }
  return worst;
}

// One group of 8 dimensions.
int PackValueGroup(const float* v, int64_t stride, const QHead& h, int64_t n, int64_t d) {
  __m256i largest = _mm256_setzero_si256();
  for (int64_t j = 0; j < h.n_keys; ++j) {
    largest = _mm256_max_epi32(largest, AbsBits(LoadDims(v + j * stride, d, h.head_dim)));
  }
  alignas(32) int bits[8];
  alignas(32) float factor[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(bits), largest);
  for (int i = 0; i < 8; ++i) {
    const Scale s = ScaleFor(bits[i], kQHeadMost);
    factor[i] = s.factor;
    h.value_scale[d + i] = s.scale;
  }
  const Vec f = _mm256_load_ps(factor);
  const Vec used = _mm256_cmp_ps(f, Zero(), _CMP_NEQ_OQ);
  const auto row = [&](int64_t j) {
    if (j >= h.n_keys) return _mm256_setzero_si256();
    return _mm256_cvtps_epi32(Mul(_mm256_and_ps(LoadDims(v + j * stride, d, h.head_dim), used), f));
  };
  int16_t* out = h.values + d * n;
  for (int64_t j = 0; j < n; j += 2, out += 16) {
    const __m256i pair =
        _mm256_or_si256(_mm256_and_si256(row(j), _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(row(j + 1), 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), pair);
  }
  return LargestLane(largest);
}

void Pack(const float* k, int64_t k_stride, const float* v, int64_t v_stride, const QHead& h) {
  const int64_t n = RoundUp(h.n_keys, kQHeadKeys);
  const int64_t dims = RoundUp(h.head_dim, kQHeadDims);
  int worst = PackKeys(k, k_stride, h, n, dims);
  for (int64_t d = 0; d < dims; d += kVec) {
    const int largest = PackValueGroup(v, v_stride, h, n, d);
    worst = largest > worst ? largest : worst;
  }
  if (worst < kInfinity) return;
  for (int64_t d = 0; d < dims; ++d) h.value_scale[d] = __builtin_nanf("");
}

// A group of queries in 8 bits, and what is computed of them.
struct Work {
  int64_t n;       // keys with padding
  int64_t dims;    // dimensions with padding
  int8_t* x;       // [12, dims]
  int* start;      // [12, dims / 8]: two 16-bit numbers, see the header
  float* x_scale;  // [12], times scale * log2 e; NaN for a row that is not finite
  float* score;    // [12, n]
  int16_t* p;      // [12, n]
  int32_t* total;  // [12]
  int32_t* sum;    // [12, 24] of the dimensions worked on
  float* value;    // [12, 24], sums over more than kQHeadSumKeys keys
};

int64_t ScratchBytes(int64_t n_keys, int64_t head_dim) {
  const int64_t n = RoundUp(n_keys, kQHeadKeys);
  const int64_t dims = RoundUp(head_dim, kQHeadDims);
  return kGroupRows * (n * 6) + RoundUp(kGroupRows * dims, 64) + RoundUp(kGroupRows * dims / 2, 64) + 128 +
         2 * RoundUp(kGroupRows * kSumStride * 4, 64);
}

Work Divide(const QHead& h, std::byte* scratch) {
  Work w;
  w.n = RoundUp(h.n_keys, kQHeadKeys);
  w.dims = RoundUp(h.head_dim, kQHeadDims);
  w.score = reinterpret_cast<float*>(scratch);
  scratch += kGroupRows * w.n * 4;
  w.p = reinterpret_cast<int16_t*>(scratch);
  scratch += kGroupRows * w.n * 2;
  w.x = reinterpret_cast<int8_t*>(scratch);
  scratch += RoundUp(kGroupRows * w.dims, 64);
  w.start = reinterpret_cast<int*>(scratch);
  scratch += RoundUp(kGroupRows * w.dims / 2, 64);
  w.x_scale = reinterpret_cast<float*>(scratch);
  w.total = reinterpret_cast<int32_t*>(scratch + 64);
  w.sum = reinterpret_cast<int32_t*>(scratch + 128);
  w.value = reinterpret_cast<float*>(scratch + 128 + RoundUp(kGroupRows * kSumStride * 4, 64));
  return w;
}

void QuantiseQuery(const float* q, const QHead& h, float scale, const Work& w, int64_t r) {
  const int largest = LargestBits(q, h.head_dim);
  const Scale s = ScaleFor(largest, kQHeadMost);
  w.x_scale[r] = largest >= kInfinity ? __builtin_nanf("") : s.scale * (scale * 1.44269504f);
  int8_t* const x = w.x + r * w.dims;
  for (int64_t d = 0; d < w.dims; d += kVec) {
    const __m256i v = Quantised(LoadDims(q, d, h.head_dim), s.factor);
    const __m256i halves = Bytes(v);
    const __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(x + d), bytes);
    // Dimensions with d % 4 < 2 add up in the low 16 bits, the others in the high ones.
    const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), bytes);
    const __m128i sums = _mm_add_epi16(pairs, _mm_srli_epi64(pairs, 32));
    static_assert(kQHeadKeyZero == 1 << 6);
    w.start[r * w.dims / 8 + d / 8] = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(sums, 6)));
  }
}

// Scores of R queries from row r on with a panel of 16 keys.
template <int R>
void ScoreTile(const Work& w, int64_t r, const uint8_t* panel, const float* key_scale, float* score) {
  const int8_t* const x = w.x + r * w.dims;
  const int* const start = w.start + r * w.dims / 8;
  const int64_t eighths = w.dims / 8;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum[R][2];
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_si256();
  for (int64_t e = 0; e < eighths; ++e, panel += 128) {
    const auto* const k = reinterpret_cast<const __m256i*>(panel);
    const __m256i k00 = _mm256_load_si256(k);
    const __m256i k01 = _mm256_load_si256(k + 1);
    const __m256i k10 = _mm256_load_si256(k + 2);
    const __m256i k11 = _mm256_load_si256(k + 3);
#pragma GCC unroll 3
    for (int i = 0; i < R; ++i) {
      int a, b;
      __builtin_memcpy(&a, x + i * w.dims + 8 * e, 4);
      __builtin_memcpy(&b, x + i * w.dims + 8 * e + 4, 4);
      const __m256i x0 = _mm256_set1_epi32(a);
      const __m256i x1 = _mm256_set1_epi32(b);
      const __m256i s = _mm256_set1_epi32(start[i * eighths + e]);
      const __m256i low =
          _mm256_add_epi16(_mm256_add_epi16(s, _mm256_maddubs_epi16(k00, x0)), _mm256_maddubs_epi16(k10, x1));
      const __m256i high =
          _mm256_add_epi16(_mm256_add_epi16(s, _mm256_maddubs_epi16(k01, x0)), _mm256_maddubs_epi16(k11, x1));
      sum[i][0] = _mm256_add_epi32(sum[i][0], _mm256_madd_epi16(low, ones));
      sum[i][1] = _mm256_add_epi32(sum[i][1], _mm256_madd_epi16(high, ones));
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
    const Vec s = Set(w.x_scale[r + i]);
    for (int half = 0; half < 2; ++half) {
      Store(score + i * w.n + half * kVec,
            Mul(_mm256_cvtepi32_ps(sum[i][half]), Mul(Load(key_scale + half * kVec), s)));
    }
  }
}

// fn<R>() for R = rows, 1..3.
template <class Fn>
inline void ForRowCount(int64_t rows, Fn fn) {
  switch (rows) {
    case 1:
      return fn.template operator()<1>();
    case 2:
      return fn.template operator()<2>();
    default:
      return fn.template operator()<3>();
  }
}

// Scores of a row become probabilities, 0 for padding.
void Softmax(const Work& w, int64_t n_keys, int64_t r) {
  const float* const score = w.score + r * w.n;
  int16_t* const p = w.p + r * w.n;
  if (w.x_scale[r] != w.x_scale[r]) {  // the result will be NaN
    __builtin_memset(p, 0, static_cast<size_t>(w.n) * sizeof *p);
    w.total[r] = 1;
    return;
  }
  Vec most = Set(-__builtin_inff());
  const Vec lowest = most;
  int64_t j = 0;
  for (; j + kVec <= n_keys; j += kVec) most = _mm256_max_ps(most, Load(score + j));
  if (j < n_keys) {
    most = _mm256_max_ps(most, _mm256_blendv_ps(lowest, Load(score + j), _mm256_castsi256_ps(FirstLanes(n_keys - j))));
  }
  const Vec top = Set(MaxLanes(most));
  const Vec one = Set(kQHeadOne);
  __m256i total = _mm256_setzero_si256();
  const auto weight = [&](int64_t first) {
    const __m256i v = _mm256_cvtps_epi32(Mul(Exp2(_mm256_sub_ps(Load(score + first), top)), one));
    const int64_t left = n_keys - first;
    return left >= kVec ? v : _mm256_and_si256(v, FirstLanes(left > 0 ? left : 0));
  };
  for (j = 0; j < w.n; j += 2 * kVec) {
    const __m256i a = weight(j);
    const __m256i b = weight(j + kVec);
    total = _mm256_add_epi32(total, _mm256_add_epi32(a, b));
    _mm256_store_si256(reinterpret_cast<__m256i*>(p + j), _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8));
  }
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), total);
  int32_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  w.total[r] = sum;
}

// sum[i][8 g + ..] += p v over keys [first, end), for R rows and G groups of 8 dimensions from dimension d on.
template <int R, int G>
void ValueTile(const Work& w, int64_t r, const QHead& h, int64_t d, int64_t first, int64_t end) {
  const int16_t* const p = w.p + r * w.n;
  auto* const out = reinterpret_cast<__m256i*>(w.sum + r * kSumStride);
  __m256i sum[R][G];
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int g = 0; g < G; ++g) sum[i][g] = _mm256_load_si256(out + i * kSumStride / 8 + g);
  }
  const int16_t* v = h.values + d * w.n + first * 8;
  for (int64_t j = first; j < end; j += 2, v += 16) {
    __m256i x[G];
#pragma GCC unroll 3
    for (int g = 0; g < G; ++g) x[g] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(v + g * 8 * w.n));
#pragma GCC unroll 3
    for (int i = 0; i < R; ++i) {
      int pair;
      __builtin_memcpy(&pair, p + i * w.n + j, 4);
      const __m256i weight = _mm256_set1_epi32(pair);
#pragma GCC unroll 3
      for (int g = 0; g < G; ++g) sum[i][g] = _mm256_add_epi32(sum[i][g], _mm256_madd_epi16(weight, x[g]));
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int g = 0; g < G; ++g) _mm256_store_si256(out + i * kSumStride / 8 + g, sum[i][g]);
  }
}

// value += float(sum), or = for the first keys; sum = 0. All rows, G groups.
void Gather(const Work& w, int64_t count, int groups, bool first) {
  for (int64_t r = 0; r < count; ++r) {
    for (int g = 0; g < groups; ++g) {
      int32_t* const sum = w.sum + r * kSumStride + g * kVec;
      float* const value = w.value + r * kSumStride + g * kVec;
      const Vec part = _mm256_cvtepi32_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(sum)));
      Store(value, first ? part : Add(Load(value), part));
      _mm256_store_si256(reinterpret_cast<__m256i*>(sum), _mm256_setzero_si256());
    }
  }
}

// G groups of 8 dimensions from d on of all rows. A block of values stays in the first-level cache while all rows use
// it.
template <int G>
void Values(const Work& w, int64_t count, const QHead& h, int64_t d, float* out, int64_t out_stride) {
  for (int64_t i = 0; i < count * kSumStride; ++i) w.sum[i] = 0;
  for (int64_t first = 0; first < w.n; first += kBlockKeys) {
    const int64_t end = Min(w.n, first + kBlockKeys);
    for (int64_t r = 0; r < count; r += kTileRows) {
      ForRowCount(Min(count - r, kTileRows), [&]<int R>() { ValueTile<R, G>(w, r, h, d, first, end); });
    }
    if (end % kQHeadSumKeys == 0 || end == w.n) Gather(w, count, G, first < kQHeadSumKeys);
  }
  for (int64_t r = 0; r < count; ++r) {
    const Vec share = Set(1.0f / static_cast<float>(w.total[r]));
    for (int g = 0; g < G; ++g) {
      const int64_t at = d + g * kVec;
      Vec y = Mul(Mul(Load(w.value + r * kSumStride + g * kVec), Load(h.value_scale + at)), share);
      if (w.x_scale[r] != w.x_scale[r]) y = Set(__builtin_nanf(""));
      StoreFirst(out + r * out_stride + at, Min(h.head_dim - at, kVec), y);
    }
  }
}

void Attend(const float* q, int64_t q_stride, int64_t rows, float scale, const QHead& h, float* out, int64_t out_stride,
            std::byte* scratch) {
  const Work w = Divide(h, scratch);
  for (int64_t first = 0; first < rows; first += kGroupRows) {
    const int64_t count = Min(kGroupRows, rows - first);
    for (int64_t r = 0; r < count; ++r) QuantiseQuery(q + (first + r) * q_stride, h, scale, w, r);
    for (int64_t j = 0; j < w.n; j += kQHeadKeys) {
      for (int64_t r = 0; r < count; r += kTileRows) {
        ForRowCount(Min(count - r, kTileRows),
                    [&]<int R>() { ScoreTile<R>(w, r, h.keys + j * w.dims, h.key_scale + j, w.score + r * w.n + j); });
      }
    }
    for (int64_t r = 0; r < count; ++r) Softmax(w, h.n_keys, r);
    float* const y = out + first * out_stride;
    int64_t d = 0;
    for (; d + 24 <= w.dims; d += 24) Values<3>(w, count, h, d, y, out_stride);
    if (w.dims - d == 16) Values<2>(w, count, h, d, y, out_stride);
    if (w.dims - d == 8) Values<1>(w, count, h, d, y, out_stride);
  }
}

}  // namespace

extern const QAttentionKernels avx2_qattention = {Pack, ScratchBytes, Attend};

}  // namespace minicpm::kernels
