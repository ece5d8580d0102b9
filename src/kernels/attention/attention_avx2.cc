// AVX2 and FMA form of attention.h. Per block of 64 keys: keys are laid out in panels of 16 columns, scores come from
// tiles of 6 rows, then the running maximum moves, then the values are added in tiles of 6 rows by 16 dimensions.
#include "kernels/attention/attention.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

constexpr int kTileRows = 6;
constexpr int kPanel = 16;
constexpr int kBlock = static_cast<int>(kKvBlockTokens);
constexpr int kScoreVecs = kBlock / kVec;

inline int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// One chunk's working memory.
struct Work {
  float* q;        // [rows, head_dim], multiplied by scale
  float* keys;     // [4 panels][head_dim][16]
  float* values;   // [panels][64][16 or 8]
  float* scores;   // [rows, 64]
  float* out;      // [rows, width] not yet divided by the sum
  float* maximum;  // [rows]
  float* sum;      // [rows]
  float* keep;     // [rows] factor for what was gathered before this block
  int64_t width;   // head_dim rounded up to 8
  int64_t rows;
};

int64_t ScratchFloats(int64_t rows, int64_t head_dim) {
  const int64_t width = RoundUp(head_dim, kVec);
  return RoundUp(rows * head_dim, kPanel) + kBlock * head_dim + kBlock * (width + kVec) + rows * kBlock +
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
  w.scores = take(w.rows * kBlock);
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

void Begin(const AttentionChunk& a, const Work& w) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t g = 0; g < a.group; ++g) {
      ScaleRow(a.q + t * a.q_stride + g * a.head_dim, a.head_dim, a.scale, w.q + (t * a.group + g) * a.head_dim);
    }
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

void ScoreRows(const float* q, int64_t rows, int64_t head_dim, const float* panel, float* scores) {
  int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) ScoreTile<6>(q + r * head_dim, head_dim, panel, scores + r * kBlock);
  q += r * head_dim;
  scores += r * kBlock;
  switch (rows - r) {
    case 1:
      return ScoreTile<1>(q, head_dim, panel, scores);
    case 2:
      return ScoreTile<2>(q, head_dim, panel, scores);
    case 3:
      return ScoreTile<3>(q, head_dim, panel, scores);
    case 4:
      return ScoreTile<4>(q, head_dim, panel, scores);
    case 5:
      return ScoreTile<5>(q, head_dim, panel, scores);
    default:
      return;
  }
}

// Turns n scores into exp(score - running maximum), moves the maximum, the sum, and says what to keep of the past.
void Softmax(float* scores, int64_t n, float& maximum, float& sum, float& keep) {
  Vec top = Set(-__builtin_inff());
  int64_t j = 0;
  for (; j + kVec <= n; j += kVec) top = _mm256_max_ps(top, Load(scores + j));
  if (j < n) {
    const Vec valid = _mm256_castsi256_ps(FirstLanes(n - j));
    top = _mm256_max_ps(top, _mm256_blendv_ps(Set(-__builtin_inff()), Load(scores + j), valid));
  }
  const float here = MaxLanes(top);
  const float next = here > maximum ? here : maximum;
  keep = _mm256_cvtss_f32(Exp(Set(maximum - next)));
  maximum = next;
  const Vec m = Set(next);
  Vec part = Zero();
  for (j = 0; j + kVec <= n; j += kVec) {
    const Vec p = Exp(_mm256_sub_ps(Load(scores + j), m));
    Store(scores + j, p);
    part = Add(part, p);
  }
  if (j < n) {
    const Vec valid = _mm256_castsi256_ps(FirstLanes(n - j));
    const Vec p = _mm256_and_ps(Exp(_mm256_sub_ps(Load(scores + j), m)), valid);
    Store(scores + j, p);
    part = Add(part, p);
  }
  sum = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(sum), _mm_set_ss(keep), _mm_set_ss(SumLanes(part))));
}

// out[r][d] = keep[r] * out[r][d] + sum over j < n of p[r][j] v[j][d]; R rows, N vectors of dimensions.
template <int R, int N>
void ValueTile(const float* p, int64_t n, const float* values, const float* keep, float* out, int64_t width) {
  Vec sum[R][N];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const Vec k = _mm256_broadcast_ss(keep + r);
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) sum[r][i] = Mul(Load(out + r * width + i * kVec), k);
  }
  for (int64_t j = 0; j < n; ++j) {
    Vec v[N];
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) v[i] = Load(values + j * N * kVec + i * kVec);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Vec x = _mm256_broadcast_ss(p + r * kBlock + j);
#pragma GCC unroll 2
      for (int i = 0; i < N; ++i) sum[r][i] = Fma(x, v[i], sum[r][i]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) Store(out + r * width + i * kVec, sum[r][i]);
  }
}

template <int R>
void ValueRows(const float* p, int64_t n, const float* values, const float* keep, float* out, int64_t width) {
  int64_t d = 0;
  for (; width - d > kVec; d += kPanel) {
    ValueTile<R, 2>(p, n, values, keep, out + d, width);
    values += kBlock * kPanel;
  }
  if (d < width) ValueTile<R, 1>(p, n, values, keep, out + d, width);
}

void ValueAny(int rows, const float* p, int64_t n, const float* values, const float* keep, float* out, int64_t width) {
  switch (rows) {
    case 1:
      return ValueRows<1>(p, n, values, keep, out, width);
    case 2:
      return ValueRows<2>(p, n, values, keep, out, width);
    case 3:
      return ValueRows<3>(p, n, values, keep, out, width);
    case 4:
      return ValueRows<4>(p, n, values, keep, out, width);
    case 5:
      return ValueRows<5>(p, n, values, keep, out, width);
    default:
      return ValueRows<6>(p, n, values, keep, out, width);
  }
}

template <class Kv>
void AttendBlocks(const AttentionChunk& a, const Work& w) {
  const int64_t most = a.visible + (a.tokens - 1) * a.visible_step;
  for (int64_t first = 0; first < most; first += kBlock) {
    const KvBlock& block = a.blocks[first / kBlock];
    const auto* k = static_cast<const typename Kv::Type*>(block.keys) + a.head_offset;
    const auto* v = static_cast<const typename Kv::Type*>(block.values) + a.head_offset;
    const int64_t n = Min(most - first, kBlock);
    // Tokens before t0 see nothing of this block; visible(t) = visible + t * visible_step.
    const int64_t t0 = a.visible > first ? 0 : first - a.visible + 1;
    const int64_t r0 = t0 * a.group;
    const auto seen = [&](int64_t row) { return Min(a.visible + row / a.group * a.visible_step - first, kBlock); };

    PackKeys<Kv>(k, a.token_stride, n, a.head_dim, w.keys);
    for (int64_t panel = 0; panel * kPanel < n; ++panel) {
      ScoreRows(w.q + r0 * a.head_dim, w.rows - r0, a.head_dim, w.keys + panel * a.head_dim * kPanel,
                w.scores + r0 * kBlock + panel * kPanel);
    }
    for (int64_t r = r0; r < w.rows; ++r) {
      Softmax(w.scores + r * kBlock, seen(r), w.maximum[r], w.sum[r], w.keep[r]);
    }
    PackValues<Kv>(v, a.token_stride, n, a.head_dim, w.values);
    // A tile joins neighbours that see equally many keys: nobody multiplies a value that is not his.
    for (int64_t r = r0; r < w.rows;) {
      const int64_t keys = seen(r);
      int rows = 1;
      while (rows < kTileRows && r + rows < w.rows && seen(r + rows) == keys) ++rows;
      ValueAny(rows, w.scores + r * kBlock, keys, w.values, w.keep + r, w.out + r * w.width, w.width);
      r += rows;
    }
  }
}

void Attend(const AttentionChunk& a) {
  const Work w = Divide(a);
  Begin(a, w);
  if (a.half) {
    AttendBlocks<LoadF16>(a, w);
  } else {
    AttendBlocks<LoadF32>(a, w);
  }
  for (int64_t r = 0; r < w.rows; ++r) {
    float* to = a.out + r / a.group * a.out_stride + r % a.group * a.head_dim;
    const float* from = w.out + r * w.width;
    const Vec sum = Set(w.sum[r]);
    int64_t d = 0;
    for (; d + kVec <= a.head_dim; d += kVec) Store(to + d, _mm256_div_ps(Load(from + d), sum));
    if (d < a.head_dim) StoreFirst(to + d, a.head_dim - d, _mm256_div_ps(Load(from + d), sum));
  }
}

}  // namespace

extern const AttentionKernels avx2_attention = {ScratchFloats, Attend};

}  // namespace minicpm::kernels
