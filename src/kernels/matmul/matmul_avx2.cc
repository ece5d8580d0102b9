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

// M rows of x against S rows of w, in step.
template <class W, int M, int S>
void DotStreams(const float* x, int64_t x_stride, const typename W::Type* const* w, int64_t k, int64_t section,
                float (&total)[M][S]) {
  const typename W::Type* row[S];
  for (int s = 0; s < S; ++s) row[s] = w[s];
  for (int64_t begin = 0; begin < k; begin += section) {
    const int64_t end = k - begin < section ? k : begin + section;
    Vec sum[M][S];
    for (int m = 0; m < M; ++m) {
      for (int s = 0; s < S; ++s) sum[m][s] = Zero();
    }
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
#pragma GCC unroll 4
      for (int s = 0; s < S; ++s) {
        const Vec v = W::Get(row[s] + i);
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) sum[m][s] = Fma(Load(x + m * x_stride + i), v, sum[m][s]);
      }
    }
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
    const typename W::Type* row = w + n * w_stride;
    DotStreams<W, M, 1>(x, x_stride, &row, k, section, one);
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

template <class W>
void PackRows(const void* w, int64_t w_stride, int rows, int64_t len, int64_t steps, float* panel) {
  const auto* data = static_cast<const typename W::Type*>(w);
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t left = len - i * kLanes;
    for (int half = 0; half < 2; ++half) {
      Vec v[8];
      for (int r = 0; r < 8; ++r) {
        const int row = half * 8 + r;
        const typename W::Type* p = data + row * w_stride + i * kLanes;
        v[r] = row >= rows ? Zero() : left >= kLanes ? W::Get(p) : W::GetFirst(p, left);
      }
      Transpose8x8(v);
      for (int l = 0; l < kLanes; ++l) Store(panel + (l * steps + i) * kPanel + half * 8, v[l]);
    }
  }
}

template <class W>
void PackColumns(const void* w, int64_t w_stride, int cols, int64_t len, int64_t steps, float* panel) {
  const auto* data = static_cast<const typename W::Type*>(w);
  const auto get = [cols](const typename W::Type* p, int first) {
    const int64_t n = cols - first;
    return n >= kVec ? W::Get(p + first) : n > 0 ? W::GetFirst(p + first, n) : Zero();
  };
  for (int l = 0; l < kLanes; ++l) {
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t k = i * kLanes + l;
      float* out = panel + (l * steps + i) * kPanel;
      const bool inside = k < len;
      Store(out, inside ? get(data + k * w_stride, 0) : Zero());
      Store(out + kVec, inside ? get(data + k * w_stride, kVec) : Zero());
    }
  }
}

void PackX(const float* x, int64_t len, int64_t steps, float* out, int64_t lane_stride) {
  int64_t i = 0;
  for (; (i + 8) * kLanes <= len; i += 8) {
    Vec v[8];
    for (int r = 0; r < 8; ++r) v[r] = Load(x + (i + r) * kLanes);
    Transpose8x8(v);
    for (int l = 0; l < kLanes; ++l) Store(out + l * lane_stride + i, v[l]);
  }
  for (; i < steps; ++i) {
    for (int l = 0; l < kLanes; ++l) {
      const int64_t k = i * kLanes + l;
      out[l * lane_stride + i] = k < len ? x[k] : 0.0f;
    }
  }
}

template <int R>
void TileRows(const float* x, int64_t steps, const float* panel, bool first, float* c) {
  Vec sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = Zero();
  for (int64_t i = 0; i < steps; ++i) {
    const Vec b0 = _mm256_load_ps(panel + i * kPanel);
    const Vec b1 = _mm256_load_ps(panel + i * kPanel + kVec);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Vec a = _mm256_broadcast_ss(x + r * steps + i);
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
    kPanel, kWeightKernels<LoadF32>, kWeightKernels<LoadBf16>, kWeightKernels<LoadF16>, PackX, Tile, StoreTile,
    AddBias};

}  // namespace minicpm::kernels
