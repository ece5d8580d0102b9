// AVX2 and FMA form of matmul.h: tiles of 6 rows by 16 columns (12 sums in registers), dot products over up to 4 rows
// of w read as separate streams.
#include "kernels/matmul/matmul.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

constexpr int kPanel = 16;
constexpr int kTileRows = 6;

// Adds the lanes of `v` to `total` one after the other, lowest first.
inline float AddLanes(float total, bool first, Vec v) {
  alignas(32) float lane[8];
  _mm256_store_ps(lane, v);
  float sum = first ? lane[0] : total + lane[0];
  for (int l = 1; l < kLanes; ++l) sum += lane[l];
  return sum;
}

// How far ahead of its use a stream asks for its weights: past the next lines, near enough to keep.
constexpr int kAheadBytes = 512;

// sum[m][s] += x[m][i..i+7] * row[s][i..i+7]. Every value of x that is loaded meets all streams.
template <class W, int M, int S>
inline void DotStep(const float* x, int64_t x_stride, const typename W::Type* const (&row)[S], int64_t i,
                    Vec (&sum)[M][S]) {
  Vec v[S];
#pragma GCC unroll 4
  for (int s = 0; s < S; ++s) v[s] = W::Get(row[s] + i);
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
    const Vec a = Load(x + m * x_stride + i);
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) sum[m][s] = Fma(a, v[s], sum[m][s]);
  }
}

// M rows of x against S rows of w, in step.
template <class W, int M, int S>
void DotStreams(const float* x, int64_t x_stride, const typename W::Type* const (&row)[S], int64_t k, int64_t section,
                float (&total)[M][S]) {
  constexpr int kLineSteps = 64 / (kLanes * static_cast<int>(sizeof(typename W::Type)));
  for (int64_t begin = 0; begin < k; begin += section) {
    const int64_t end = k - begin < section ? k : begin + section;
    Vec sum[M][S];
    for (int m = 0; m < M; ++m) {
      for (int s = 0; s < S; ++s) sum[m][s] = Zero();
    }
    int64_t i = begin;
    for (; i + kLineSteps * kLanes <= end; i += kLineSteps * kLanes) {
#pragma GCC unroll 4
      for (int s = 0; s < S; ++s) {
        // A full group of rows of x is perhaps not the last: then w is wanted again from the second-level cache.
        const char* const ahead = reinterpret_cast<const char*>(row[s] + i) + kAheadBytes;
        M == kMaxDotRows ? _mm_prefetch(ahead, _MM_HINT_T0) : _mm_prefetch(ahead, _MM_HINT_NTA);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kLineSteps; ++j) DotStep<W, M, S>(x, x_stride, row, i + j * kLanes, sum);
    }
    for (; i + kLanes <= end; i += kLanes) DotStep<W, M, S>(x, x_stride, row, i, sum);
    if (i < end) {
      for (int s = 0; s < S; ++s) {
        const Vec v = W::GetFirst(row[s] + i, end - i);
        for (int m = 0; m < M; ++m) sum[m][s] = Fma(LoadFirst(x + m * x_stride + i, end - i), v, sum[m][s]);
      }
    }
    for (int m = 0; m < M; ++m) {
      for (int s = 0; s < S; ++s) total[m][s] = AddLanes(total[m][s], begin == 0, sum[m][s]);
    }
  }
}

template <class W, int M, int S>
void DotRows(const float* x, int64_t x_stride, const typename W::Type* w, int64_t w_stride, int64_t n_rows, int64_t k,
             int64_t section, float* out, int64_t out_stride) {
  const int64_t run = n_rows / S;
  float total[M][S] = {};
  for (int64_t n = 0; n < run; ++n) {
    const typename W::Type* rows[S];
    for (int s = 0; s < S; ++s) rows[s] = w + (s * run + n) * w_stride;
    DotStreams<W, M, S>(x, x_stride, rows, k, section, total);
    for (int m = 0; m < M; ++m) {
      for (int s = 0; s < S; ++s) out[m * out_stride + s * run + n] = total[m][s];
    }
  }
  for (int64_t n = run * S; n < n_rows; ++n) {
    float one[M][1] = {};
    const typename W::Type* row[1] = {w + n * w_stride};
    DotStreams<W, M, 1>(x, x_stride, row, k, section, one);
    for (int m = 0; m < M; ++m) out[m * out_stride + n] = one[m][0];
  }
}

template <class W>
void Dot(const float* x, int64_t x_stride, int m_rows, const void* w, int64_t w_stride, int64_t n_rows, int64_t k,
         int64_t section, float* out, int64_t out_stride) {
  const auto* rows = static_cast<const typename W::Type*>(w);
  switch (m_rows) {
    case 1:
      return DotRows<W, 1, 4>(x, x_stride, rows, w_stride, n_rows, k, section, out, out_stride);
    case 2:
      return DotRows<W, 2, 4>(x, x_stride, rows, w_stride, n_rows, k, section, out, out_stride);
    case 3:
      return DotRows<W, 3, 4>(x, x_stride, rows, w_stride, n_rows, k, section, out, out_stride);
    default:
      return DotRows<W, 4, 3>(x, x_stride, rows, w_stride, n_rows, k, section, out, out_stride);
  }
}

// Steps that share a cache line of a row.
template <class W>
constexpr int kLineSteps = 64 / (kLanes * static_cast<int>(sizeof(typename W::Type)));

// 8 rows of one step.
template <class W>
inline void PackStep(const typename W::Type* w, int64_t w_stride, int64_t rows, int64_t left, float* out,
                     int64_t lane_stride) {
  Vec v[8];
  if (rows >= 8 && left >= kLanes) {
    for (int r = 0; r < 8; ++r) v[r] = W::Get(w + r * w_stride);
  } else {
    for (int r = 0; r < 8; ++r)
      v[r] = r >= rows ? Zero() : W::GetFirst(w + r * w_stride, left < kLanes ? left : kLanes);
  }
  Transpose8x8(v);
  for (int l = 0; l < kLanes; ++l) _mm256_store_ps(out + l * lane_stride, v[l]);
}

// A few lines of 8 rows are used up before the other 8 rows are touched: rows are often a multiple of 4 KiB apart, and
// then only 8 of their lines fit into the first-level cache. What comes next is asked for early: a row of one section
// is seldom longer than a page, too short for the hardware to notice.
template <class W>
void PackPanel(const typename W::Type* data, int64_t w_stride, int64_t rows, int64_t len, int64_t steps, float* panel,
               int64_t lane_stride) {
  constexpr int64_t kLine = kLineSteps<W> * kLanes;
  constexpr int64_t kBlockLines = 4;
  constexpr int64_t kBlockSteps = kBlockLines * kLineSteps<W>;
  for (int64_t i = 0; i < steps; i += kBlockSteps) {
    int64_t ahead = (i + 2 * kBlockSteps) * kLanes;
    if (ahead >= len) ahead += kPanel * w_stride - len;  // the start of the next panel's rows
    const int64_t end = steps - i < kBlockSteps ? steps : i + kBlockSteps;
    for (int half = 0; half < 2; ++half) {
      const typename W::Type* from = data + half * 8 * w_stride;
      for (int r = 0; r < 8; ++r) {
        for (int b = 0; b < kBlockLines; ++b) {
          _mm_prefetch(reinterpret_cast<const char*>(from + r * w_stride + ahead + b * kLine), _MM_HINT_T1);
        }
      }
      for (int64_t j = i; j < end; ++j) {
        PackStep<W>(from + j * kLanes, w_stride, rows - half * 8, len - j * kLanes, panel + j * kPanel + half * 8,
                    lane_stride);
      }
    }
  }
}

template <class W>
void PackRows(const void* w, int64_t w_stride, int64_t n, int64_t len, int64_t steps, float* panel, int64_t lane_stride,
              int64_t panel_stride) {
  const auto* data = static_cast<const typename W::Type*>(w);
  for (int64_t first = 0; first < n; first += kPanel) {
    PackPanel<W>(data + first * w_stride, w_stride, n - first, len, steps, panel, lane_stride);
    panel += panel_stride;
  }
}

// All panels of one k before the next k: neighbours in memory are read together.
template <class W>
void PackColumns(const void* w, int64_t w_stride, int64_t n, int64_t len, int64_t steps, float* panel,
                 int64_t lane_stride, int64_t panel_stride) {
  constexpr int64_t kRowsAhead = 8;
  const auto* data = static_cast<const typename W::Type*>(w);
  for (int64_t k = 0; k < steps * kLanes; ++k) {
    const typename W::Type* const row = data + k * w_stride;
    float* out = panel + k % kLanes * lane_stride + k / kLanes * kPanel;
    for (int64_t first = 0; first < n; first += kPanel, out += panel_stride) {
      _mm_prefetch(reinterpret_cast<const char*>(row + kRowsAhead * w_stride + first), _MM_HINT_T0);
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t left = n - first - half * kVec;
        const typename W::Type* const p = row + first + half * kVec;
        const Vec v = k >= len || left <= 0 ? Zero() : left >= kVec ? W::Get(p) : W::GetFirst(p, left);
        _mm256_store_ps(out + half * kVec, v);
      }
    }
  }
}

// A step of the tile is 8 values of 6 rows: transposed, every lane gets 6 neighbours (and 2 that the next step
// overwrites).
void PackX(const float* x, int64_t x_stride, int rows, int64_t len, int64_t steps, float* out, int64_t lane_stride) {
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t left = len - i * kLanes;
    Vec v[8];
    for (int r = 0; r < 8; ++r) {
      const float* p = x + r * x_stride + i * kLanes;
      v[r] = r >= rows ? Zero() : left >= kLanes ? Load(p) : LoadFirst(p, left);
    }
    Transpose8x8(v);
    float* to = out + i * kTileRows;
    if (i + 1 < steps) {
      for (int l = 0; l < kLanes; ++l) Store(to + l * lane_stride, v[l]);
    } else {
      for (int l = 0; l < kLanes; ++l) StoreFirst(to + l * lane_stride, kTileRows, v[l]);
    }
  }
}

template <int R>
void TileRows(const float* x, int64_t steps, const float* panel, bool first, float* c) {
  Vec sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    sum[r][0] = sum[r][1] = Zero();
    _mm_prefetch(reinterpret_cast<const char*>(c + r * kPanel), _MM_HINT_T0);
  }
  const float* const end = panel + steps * kPanel;
  const int64_t ahead = steps * kTileRows;  // the next tile's x
  for (; panel < end; panel += kPanel, x += kTileRows) {
    _mm_prefetch(reinterpret_cast<const char*>(x + ahead), _MM_HINT_T0);
    const Vec b0 = _mm256_load_ps(panel);
    const Vec b1 = _mm256_load_ps(panel + kVec);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Vec a = _mm256_broadcast_ss(x + r);
      sum[r][0] = Fma(a, b0, sum[r][0]);
      sum[r][1] = Fma(a, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    float* out = c + r * kPanel;
    if (!first) {
      sum[r][0] = Add(_mm256_load_ps(out), sum[r][0]);
      sum[r][1] = Add(_mm256_load_ps(out + kVec), sum[r][1]);
    }
    _mm256_store_ps(out, sum[r][0]);
    _mm256_store_ps(out + kVec, sum[r][1]);
  }
}

void Tile(const float* x, int64_t steps, int64_t m_rows, const float* panel, bool first, float* c) {
  int64_t m = 0;
  for (; m + kTileRows <= m_rows; m += kTileRows) TileRows<6>(x + m * steps, steps, panel, first, c + m * kPanel);
  x += m * steps;
  c += m * kPanel;
  switch (m_rows - m) {
    case 1:
      return TileRows<1>(x, steps, panel, first, c);
    case 2:
      return TileRows<2>(x, steps, panel, first, c);
    case 3:
      return TileRows<3>(x, steps, panel, first, c);
    case 4:
      return TileRows<4>(x, steps, panel, first, c);
    case 5:
      return TileRows<5>(x, steps, panel, first, c);
    default:
      return;
  }
}

void StoreTile(const float* c, int64_t c_stride, int64_t m_rows, int64_t cols, bool add, float* y, int64_t y_stride) {
  for (int64_t m = 0; m < m_rows; ++m) {
    const float* from = c + m * c_stride;
    float* to = y + m * y_stride;
    int64_t n = 0;
    for (; n + kVec <= cols; n += kVec) Store(to + n, add ? Add(Load(to + n), Load(from + n)) : Load(from + n));
    if (n < cols) {
      const Vec v = LoadFirst(from + n, cols - n);
      StoreFirst(to + n, cols - n, add ? Add(LoadFirst(to + n, cols - n), v) : v);
    }
  }
}

void AddBias(const float* bias, int64_t m_rows, int64_t cols, float* c, int64_t c_stride) {
  for (int64_t m = 0; m < m_rows; ++m) {
    float* row = c + m * c_stride;
    int64_t n = 0;
    for (; n + kVec <= cols; n += kVec) Store(row + n, Add(Load(row + n), Load(bias + n)));
    if (n < cols) StoreFirst(row + n, cols - n, Add(LoadFirst(row + n, cols - n), LoadFirst(bias + n, cols - n)));
  }
}

template <class W>
constexpr WeightKernels kWeightKernels = {Dot<W>, PackRows<W>, PackColumns<W>};

}  // namespace

extern const MatmulKernels avx2_matmul = {
    kPanel,    kTileRows, kWeightKernels<LoadF32>, kWeightKernels<LoadBf16>, kWeightKernels<LoadF16>, PackX, Tile,
    StoreTile, AddBias};

}  // namespace minicpm::kernels
