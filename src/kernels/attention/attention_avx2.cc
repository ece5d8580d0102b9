// AVX2 and FMA form of attention.h. Per block of 64 keys: keys and values are laid out in panels of 16 columns; then
// groups of 24 rows get their scores in tiles of 6 rows, move their running maximum, and add the values in tiles of 6
// rows by 16 dimensions. Keys, then values, of one block fill half of the first-level cache while a group runs over
// them. Up to 7 rows (a decoded token and its group of heads) read keys and values in place instead. Both ways add in
// the same order.
#include "kernels/attention/attention.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

constexpr int kTileRows = 6;
constexpr int kMostDirectRows = 7;
constexpr int kGroupRows = 24;
constexpr int kPanel = 16;
constexpr int kBlock = static_cast<int>(kKvBlockTokens);
constexpr float kLog2E = 1.44269504f;

// 8-bit keys and values as floats, without their scales.
struct LoadI8 {
  using Type = int8_t;
  static Vec Get(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static Vec GetFirst(const int8_t* p, int64_t n) {
    alignas(8) int8_t lanes[8] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
    return Get(lanes);
  }
};
template <class Kv>
constexpr bool kScaled = false;
template <>
constexpr bool kScaled<LoadI8> = true;

inline int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// One chunk's working memory.
struct Work {
  float* q;        // [rows, head_dim], multiplied by scale * log2(e)
  float* keys;     // [4 panels][head_dim][16]
  float* values;   // [panels][64][16 or 8]
  float* scores;   // [24 rows, 64] of one group
  float* out;      // [rows, width] not yet divided by the sum
  float* maximum;  // [rows]
  float* sum;      // [rows]
  float* keep;     // [rows] factor for what was gathered before this block
  int64_t width;   // head_dim rounded up to 8
  int64_t rows;
};

int64_t ScratchFloats(int64_t rows, int64_t head_dim) {
  const int64_t width = RoundUp(head_dim, kVec);
  return RoundUp(rows * head_dim, kPanel) + kBlock * head_dim + kBlock * (width + kVec) + kGroupRows * kBlock +
         RoundUp(rows * width, kPanel) + 3 * RoundUp(rows, kPanel);
}

Work Divide(const AttentionChunk& a) {
  Work w;
  w.rows = a.tokens * a.group;
  w.width = RoundUp(a.head_dim, kVec);
  float* next = a.scratch;
  const auto take = [&next](int64_t n) {
    float* p = next;
    next += RoundUp(n, kPanel);
    return p;
  };
  w.q = take(w.rows * a.head_dim);
  w.keys = take(kBlock * a.head_dim);
  w.values = take(kBlock * (w.width + kVec));
  w.scores = take(kGroupRows * kBlock);
  w.out = take(w.rows * w.width);
  w.maximum = take(w.rows);
  w.sum = take(w.rows);
  w.keep = take(w.rows);
  return w;
}

void ScaleRow(const float* x, int64_t n, float scale, float* y) {
  const Vec s = Set(scale);
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) Store(y + i, Mul(Load(x + i), s));
  if (i < n) StoreFirst(y + i, n - i, Mul(LoadFirst(x + i, n - i), s));
}

inline void PrefetchBytes(const void* p, int64_t bytes) {
  for (int64_t b = 0; b < bytes + 63; b += 64) _mm_prefetch(static_cast<const char*>(p) + b, _MM_HINT_T1);
}

void Begin(const AttentionChunk& a, const Work& w) {
  constexpr int64_t kTokensAhead = 4;
  const int64_t width = a.group * a.head_dim;
  float* q = w.q;
  for (int64_t t = 0; t < a.tokens; ++t) {
    const float* const row = a.q + t * a.q_stride;
    if (t + kTokensAhead < a.tokens) PrefetchBytes(row + kTokensAhead * a.q_stride, width * 4);
    ScaleRow(row, width, a.scale * kLog2E, q);
    q += width;
  }
  for (int64_t i = 0; i < w.rows * w.width; i += kVec) Store(w.out + i, Zero());
  for (int64_t r = 0; r < w.rows; ++r) {
    w.maximum[r] = -__builtin_inff();
    w.sum[r] = 0.0f;
  }
}

// keys[panel][d][j] = k[16 panel + j][d]; zero for the keys from n on that share a panel with valid ones.
template <class K>
void PackKeys(const typename K::Type* k, int64_t stride, int64_t n, int64_t head_dim, float* keys) {
  for (int64_t first = 0; first < n; first += kVec) {
    float* panel = keys + first / kPanel * head_dim * kPanel + first % kPanel;
    const int64_t valid = Min(n - first, kVec);
    for (int64_t d = 0; d < head_dim; d += kVec) {
      const int64_t dims = Min(head_dim - d, kVec);
      Vec v[8];
      for (int j = 0; j < 8; ++j) {
        const typename K::Type* p = k + (first + j) * stride + d;
        v[j] = j >= valid ? Zero() : dims == kVec ? K::Get(p) : K::GetFirst(p, dims);
      }
      Transpose8x8(v);
      for (int64_t i = 0; i < dims; ++i) Store(panel + (d + i) * kPanel, v[i]);
    }
    if (first % kPanel == 0 && first + kVec >= n) {  // the other half of the last panel
      for (int64_t d = 0; d < head_dim; ++d) Store(panel + d * kPanel + kVec, Zero());
    }
  }
}

// values[panel][j][d] = v[j][16 panel + d]; the last panel is 8 wide when 8 dimensions or fewer are left.
template <class V>
void PackValues(const typename V::Type* v, int64_t stride, int64_t n, int64_t head_dim, float* values) {
  for (int64_t d = 0; d < head_dim; d += kPanel) {
    const int64_t width = head_dim - d > kVec ? kPanel : kVec;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t e = 0; e < width; e += kVec) {
        const int64_t dims = head_dim - d - e;
        const typename V::Type* p = v + j * stride + d + e;
        Store(values + j * width + e, dims >= kVec ? V::Get(p) : V::GetFirst(p, dims));
      }
    }
    values += kBlock * width;
  }
}

// scores[r][j] = q[r] . k[j], R rows, one panel of 16 keys.
template <int R>
void ScoreTile(const float* q, int64_t head_dim, const float* panel, float* scores) {
  Vec sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = Zero();
  for (int64_t d = 0; d < head_dim; ++d) {
    const Vec k0 = Load(panel + d * kPanel);
    const Vec k1 = Load(panel + d * kPanel + kVec);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Vec x = _mm256_broadcast_ss(q + r * head_dim + d);
      sum[r][0] = Fma(x, k0, sum[r][0]);
      sum[r][1] = Fma(x, k1, sum[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    Store(scores + r * kBlock, sum[r][0]);
    Store(scores + r * kBlock + kVec, sum[r][1]);
  }
}

template <int R>
void ScorePanels(const float* q, int64_t head_dim, const float* keys, int64_t n, float* scores) {
  for (int64_t j = 0; j < n; j += kPanel) ScoreTile<R>(q, head_dim, keys + j * head_dim, scores + j);
}

// Scores straight from the keys: S[r][j] for R rows and 8 keys, of which `valid` exist.
template <class K, int R>
void ScoreDirect(const float* q, int64_t head_dim, const typename K::Type* k, int64_t stride, int64_t valid,
                 float* scores) {
  Vec sum[R];
#pragma GCC unroll 7
  for (int r = 0; r < R; ++r) sum[r] = Zero();
  for (int64_t d = 0; d < head_dim; d += kVec) {
    const int64_t dims = Min(head_dim - d, kVec);
    Vec v[8];
    if (valid == kVec && dims == kVec) {
      for (int j = 0; j < 8; ++j) v[j] = K::Get(k + j * stride + d);
    } else {
      for (int j = 0; j < 8; ++j) v[j] = j < valid ? K::GetFirst(k + j * stride + d, dims) : Zero();
    }
    Transpose8x8(v);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if (i >= dims) break;
#pragma GCC unroll 7
      for (int r = 0; r < R; ++r) sum[r] = Fma(_mm256_broadcast_ss(q + r * head_dim + d + i), v[i], sum[r]);
    }
  }
#pragma GCC unroll 7
  for (int r = 0; r < R; ++r) Store(scores + r * kBlock, sum[r]);
}

// v[r] becomes one register with a reduction of v[r]'s lanes in lane r.
template <class Op>
inline Vec ReduceRows(Vec v[8], Op op) {
  Transpose8x8(v);
  return op(op(op(v[0], v[1]), op(v[2], v[3])), op(op(v[4], v[5]), op(v[6], v[7])));
}

// Turns the first seen[r] scores of up to 8 rows into 2^(score - running maximum), moves maxima and sums, and says what
// to keep of the past.
void Softmax(float* scores, int rows, const int64_t* seen, float* maximum, float* sum, float* keep) {
  const Vec lowest = Set(-__builtin_inff());
  Vec part[8];
  for (int r = 0; r < 8; ++r) {
    part[r] = lowest;
    if (r >= rows) continue;
    const float* s = scores + r * kBlock;
    int64_t j = 0;
    for (; j + kVec <= seen[r]; j += kVec) part[r] = _mm256_max_ps(part[r], Load(s + j));
    if (j < seen[r]) {
      const Vec valid = _mm256_castsi256_ps(FirstLanes(seen[r] - j));
      part[r] = _mm256_max_ps(part[r], _mm256_blendv_ps(lowest, Load(s + j), valid));
    }
  }
  const Vec here = ReduceRows(part, [](Vec a, Vec b) { return _mm256_max_ps(a, b); });
  const Vec before = LoadFirst(maximum, rows);
  const Vec top = _mm256_max_ps(before, here);
  const Vec kept = Exp2(_mm256_sub_ps(before, top));
  StoreFirst(maximum, rows, top);
  StoreFirst(keep, rows, kept);
  for (int r = 0; r < 8; ++r) {
    part[r] = Zero();
    if (r >= rows) continue;
    float* s = scores + r * kBlock;
    const Vec m = _mm256_broadcast_ss(maximum + r);
    int64_t j = 0;
    for (; j + kVec <= seen[r]; j += kVec) {
      const Vec p = Exp2(_mm256_sub_ps(Load(s + j), m));
      Store(s + j, p);
      part[r] = Add(part[r], p);
    }
    if (j < seen[r]) {
      const Vec valid = _mm256_castsi256_ps(FirstLanes(seen[r] - j));
      const Vec p = _mm256_and_ps(Exp2(_mm256_sub_ps(Load(s + j), m)), valid);
      Store(s + j, p);
      part[r] = Add(part[r], p);
    }
  }
  const Vec added = ReduceRows(part, [](Vec a, Vec b) { return Add(a, b); });
  StoreFirst(sum, rows, Fma(LoadFirst(sum, rows), kept, added));
}

// out[r][d] = keep[r] * out[r][d] + sum over j < n of p[r][j] v[j][d]; R rows, N vectors of dimensions, the last one
// with `dims` of them.
template <class V, int R, int N>
void ValueTile(const float* p, int64_t n, const typename V::Type* v, int64_t stride, int64_t dims, const float* keep,
               float* out, int64_t width) {
  Vec sum[R][N];
#pragma GCC unroll 7
  for (int r = 0; r < R; ++r) {
    const Vec k = _mm256_broadcast_ss(keep + r);
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) sum[r][i] = Mul(Load(out + r * width + i * kVec), k);
  }
  for (int64_t j = 0; j < n; ++j, v += stride) {
    Vec x[N];
    if constexpr (N == 2) x[0] = V::Get(v);
    x[N - 1] = dims == kVec ? V::Get(v + (N - 1) * kVec) : V::GetFirst(v + (N - 1) * kVec, dims);
#pragma GCC unroll 7
    for (int r = 0; r < R; ++r) {
      const Vec weight = _mm256_broadcast_ss(p + r * kBlock + j);
#pragma GCC unroll 2
      for (int i = 0; i < N; ++i) sum[r][i] = Fma(weight, x[i], sum[r][i]);
    }
  }
#pragma GCC unroll 7
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) Store(out + r * width + i * kVec, sum[r][i]);
  }
}

// scores[r][j] *= scales[j], for the first n columns rounded up to whole vectors.
void ScaleColumns(float* scores, int64_t rows, int64_t n, const float* scales) {
  for (int64_t j = 0; j < n; j += kVec) {
    const Vec s = Load(scales + j);
    for (int64_t r = 0; r < rows; ++r) Store(scores + r * kBlock + j, Mul(Load(scores + r * kBlock + j), s));
  }
}

// Values in panels as PackValues leaves them.
template <int R>
void ValuePanels(const float* p, int64_t n, const float* values, const float* keep, float* out, int64_t width) {
  int64_t d = 0;
  for (; width - d > kVec; d += kPanel) {
    ValueTile<LoadF32, R, 2>(p, n, values, kPanel, kVec, keep, out + d, width);
    values += kBlock * kPanel;
  }
  if (d < width) ValueTile<LoadF32, R, 1>(p, n, values, kVec, kVec, keep, out + d, width);
}

// Values where they lie.
template <class V, int R>
void ValueDirect(const float* p, int64_t n, const typename V::Type* v, int64_t stride, int64_t head_dim,
                 const float* keep, float* out, int64_t width) {
  int64_t d = 0;
  for (; head_dim - d > kVec; d += kPanel) {
    ValueTile<V, R, 2>(p, n, v + d, stride, Min(head_dim - d - kVec, kVec), keep, out + d, width);
  }
  if (d < head_dim) ValueTile<V, R, 1>(p, n, v + d, stride, head_dim - d, keep, out + d, width);
}

// fn<R>() for R = rows.
template <class Fn>
inline void ForRowCount(int64_t rows, Fn fn) {
  switch (rows) {
    case 1:
      return fn.template operator()<1>();
    case 2:
      return fn.template operator()<2>();
    case 3:
      return fn.template operator()<3>();
    case 4:
      return fn.template operator()<4>();
    case 5:
      return fn.template operator()<5>();
    case 6:
      return fn.template operator()<6>();
    default:
      return fn.template operator()<7>();
  }
}

// Asks for the rows of the next block while this one is worked on: they lie far apart, the hardware does not guess
// them.
template <class Kv>
class Ahead {
 public:
  // Rows [0, n) of head_dim elements, spread over `turns` calls of Next().
  Ahead(const void* data, const AttentionChunk& a, int64_t n, int64_t turns)
      : rows_(static_cast<const Type*>(data) + a.head_offset),
        stride_(a.token_stride),
        left_(n),
        each_((n + turns - 1) / turns),
        bytes_(a.head_dim * static_cast<int64_t>(sizeof(Type))) {}
  void Next() {
    for (int64_t i = 0; i < each_ && left_ > 0; ++i, --left_, rows_ += stride_) PrefetchBytes(rows_, bytes_);
  }

 private:
  using Type = typename Kv::Type;
  const Type* rows_;
  int64_t stride_, left_, each_, bytes_;
};

// seen[i] = keys of the block at `first` that row begin + i of the chunk sees.
void FillSeen(const AttentionChunk& a, int64_t begin, int64_t end, int64_t first, int64_t* seen) {
  int64_t visible = a.visible + begin / a.group * a.visible_step - first;
  int64_t head = begin % a.group;
  for (int64_t r = begin; r < end; ++r) {
    *seen++ = Min(visible, kBlock);
    if (++head == a.group) {
      head = 0;
      visible += a.visible_step;
    }
  }
}

// How many rows from `r` on, at most `most`, see as many keys as row r: only these may share a tile of values, so that
// nobody multiplies a value that is not his.
inline int64_t Alike(const int64_t* seen, int64_t r, int64_t end, int64_t most) {
  int64_t rows = 1;
  while (rows < most && r + rows < end && seen[r + rows] == seen[r]) ++rows;
  return rows;
}

// Rows [begin, end) of the chunk, at most a group, meet a block of n keys that lies packed in `w`.
template <class Kv>
void AttendGroup(const AttentionChunk& a, const Work& w, int64_t begin, int64_t end, int64_t first, int64_t n,
                 const KvBlock& block) {
  int64_t seen[kGroupRows];
  FillSeen(a, begin, end, first, seen);
  const int64_t count = end - begin;
  for (int64_t r = 0; r < count; r += kTileRows) {
    ForRowCount(Min(count - r, kTileRows), [&]<int R>() {
      ScorePanels<R>(w.q + (begin + r) * a.head_dim, a.head_dim, w.keys, n, w.scores + r * kBlock);
    });
  }
  if constexpr (kScaled<Kv>) ScaleColumns(w.scores, count, n, block.key_scales + a.scale_offset);
  for (int64_t r = 0; r < count; r += 8) {
    const int rows = static_cast<int>(Min(count - r, 8));
    Softmax(w.scores + r * kBlock, rows, seen + r, w.maximum + begin + r, w.sum + begin + r, w.keep + begin + r);
  }
  if constexpr (kScaled<Kv>) ScaleColumns(w.scores, count, n, block.value_scales + a.scale_offset);
  for (int64_t r = 0; r < count;) {
    const int64_t rows = Alike(seen, r, count, kTileRows);
    ForRowCount(rows, [&]<int R>() {
      ValuePanels<R>(w.scores + r * kBlock, seen[r], w.values, w.keep + begin + r, w.out + (begin + r) * w.width,
                     w.width);
    });
    r += rows;
  }
}

// All rows [begin, rows) of a small chunk meet a block of n keys in place.
template <class Kv>
void AttendDirect(const AttentionChunk& a, const Work& w, int64_t begin, int64_t first, int64_t n, const KvBlock& block,
                  Ahead<Kv>& keys_ahead, Ahead<Kv>& values_ahead) {
  using Type = typename Kv::Type;
  int64_t seen[kMostDirectRows];
  FillSeen(a, begin, w.rows, first, seen);
  const int64_t count = w.rows - begin;
  const Type* const k = static_cast<const Type*>(block.keys) + a.head_offset;
  const Type* const v = static_cast<const Type*>(block.values) + a.head_offset;
  for (int64_t j = 0; j < n; j += kVec) {
    keys_ahead.Next();
    values_ahead.Next();
    ForRowCount(count, [&]<int R>() {
      ScoreDirect<Kv, R>(w.q + begin * a.head_dim, a.head_dim, k + j * a.token_stride, a.token_stride, Min(n - j, kVec),
                         w.scores + j);
    });
  }
  if constexpr (kScaled<Kv>) ScaleColumns(w.scores, count, n, block.key_scales + a.scale_offset);
  Softmax(w.scores, static_cast<int>(count), seen, w.maximum + begin, w.sum + begin, w.keep + begin);
  if constexpr (kScaled<Kv>) ScaleColumns(w.scores, count, n, block.value_scales + a.scale_offset);
  for (int64_t r = 0; r < count;) {
    const int64_t rows = Alike(seen, r, count, kMostDirectRows);
    ForRowCount(rows, [&]<int R>() {
      ValueDirect<Kv, R>(w.scores + r * kBlock, seen[r], v, a.token_stride, a.head_dim, w.keep + begin + r,
                         w.out + (begin + r) * w.width, w.width);
    });
    r += rows;
  }
}

template <class Kv>
void AttendBlocks(const AttentionChunk& a, const Work& w) {
  using Type = typename Kv::Type;
  const bool direct = w.rows <= kMostDirectRows;
  const int64_t most = a.visible + (a.tokens - 1) * a.visible_step;
  for (int64_t first = 0; first < most; first += kBlock) {
    const KvBlock& block = a.blocks[first / kBlock];
    const int64_t n = Min(most - first, kBlock);
    const int64_t next_n = Min(most - first - n, kBlock);
    const KvBlock& next = a.blocks[next_n > 0 ? first / kBlock + 1 : first / kBlock];
    // Tokens before t0 see nothing of this block; visible(t) = visible + t * visible_step.
    const int64_t t0 = a.visible > first ? 0 : first - a.visible + 1;
    const int64_t r0 = t0 * a.group;
    const int64_t turns = direct ? kBlock / kVec : (w.rows - r0 + kGroupRows - 1) / kGroupRows;
    Ahead<Kv> keys_ahead(next.keys, a, next_n, turns);
    Ahead<Kv> values_ahead(next.values, a, next_n, turns);
    if (direct) {
      AttendDirect<Kv>(a, w, r0, first, n, block, keys_ahead, values_ahead);
      continue;
    }
    PackKeys<Kv>(static_cast<const Type*>(block.keys) + a.head_offset, a.token_stride, n, a.head_dim, w.keys);
    PackValues<Kv>(static_cast<const Type*>(block.values) + a.head_offset, a.token_stride, n, a.head_dim, w.values);
    for (int64_t r = r0; r < w.rows; r += kGroupRows) {
      keys_ahead.Next();
      values_ahead.Next();
      AttendGroup<Kv>(a, w, r, Min(w.rows, r + kGroupRows), first, n, block);
    }
  }
}

void Attend(const AttentionChunk& a) {
  const Work w = Divide(a);
  Begin(a, w);
  switch (a.format) {
    case KvFormat::kF16:
      AttendBlocks<LoadF16>(a, w);
      break;
    case KvFormat::kI8:
      AttendBlocks<LoadI8>(a, w);
      break;
    default:
      AttendBlocks<LoadF32>(a, w);
  }
  const float* from = w.out;
  const float* sum = w.sum;
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t g = 0; g < a.group; ++g, from += w.width) {
      float* to = a.out + t * a.out_stride + g * a.head_dim;
      const Vec s = Set(*sum++);
      int64_t d = 0;
      for (; d + kVec <= a.head_dim; d += kVec) Store(to + d, _mm256_div_ps(Load(from + d), s));
      if (d < a.head_dim) StoreFirst(to + d, a.head_dim - d, _mm256_div_ps(Load(from + d), s));
    }
  }
}

}  // namespace

extern const AttentionKernels avx2_attention = {ScratchFloats, Attend};

}  // namespace minicpm::kernels
