// qmatmul.h for instruction sets with products of four 8-bit pairs added in 32 bits (VNNI, dotprod): nothing can
// overflow, so the start of a sum is exact and takes the place of the 16-bit one. Included by their files only, which
// say what the vectors are; everything has internal linkage.
//
// `start` of QuantizedRows holds int32 here, one for each run of columns: - zero point * (sum of the activations of the
// run), for INT8 of the whole block in its first run (the others are not read).
//
// Vectors: V::Sum: 16 int32, one for each row of a panel. V::Piece: 64 bytes of weights, 4 columns of 16 rows.
// V::Columns: 16 columns of a row of x. V::Floats: 16 float32. V::kTileRows: rows of x at a time.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/qmatmul/qmatmul.h"

namespace minicpm::kernels {
namespace {

struct DotInt8 {
  static constexpr ActivationFormat kFormat = kInt8Activation;
  static constexpr bool kNibbles = false;
  static const std::byte* Weights(const std::byte* panel, int64_t column) { return panel + 64 + column * kPanelRows; }
};

struct DotInt4 {
  static constexpr ActivationFormat kFormat = kInt4Activation;
  static constexpr bool kNibbles = true;
  static constexpr int64_t kBlockColumns = 128;
  static constexpr int64_t kBlockBytes = 1088;
  // Requires: column is a multiple of 8.
  static const std::byte* Weights(const std::byte* panel, int64_t column) {
    return panel + 128 + column / kBlockColumns * kBlockBytes + column % kBlockColumns / 8 * 64;
  }
  // The 16 sub-scales of a run, in the order of SubScaleSlot.
  static const std::byte* SubScales(const std::byte* panel, int64_t column) {
    return panel + 64 + column / kBlockColumns * kBlockBytes + column % kBlockColumns / 32 * kPanelRows;
  }
};

inline int32_t LoadStart(const int16_t* start) {
  int32_t v;
  std::memcpy(&v, start, sizeof(v));
  return v;
}

// sum[t] += 16 columns.
template <class V, int T>
inline void DotColumns(const typename V::Piece (&w)[4], const int8_t* q, int64_t q_stride, typename V::Sum (&sum)[T]) {
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    const typename V::Columns x = V::LoadColumns(q + t * q_stride);
    sum[t] = V::template Dot<0>(sum[t], w[0], x);
    sum[t] = V::template Dot<1>(sum[t], w[1], x);
    sum[t] = V::template Dot<2>(sum[t], w[2], x);
    sum[t] = V::template Dot<3>(sum[t], w[3], x);
  }
}

// The sums of T rows of x and the columns [first, first + n) of a panel, n <= block.
template <class V, int T>
inline void BlockSums(DotInt8, const QuantizedRows& x, const std::byte* panel, int64_t first, int64_t n,
                      typename V::Sum (&sum)[T]) {
  const std::byte* w = DotInt8::Weights(panel, first);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    sum[t] = V::Broadcast(LoadStart(x.start + t * x.start_stride + first / DotInt8::kFormat.run * 2));
  }
  for (int64_t i = 0; i < n; i += 16, w += 256) {
    V::Prefetch(w);
    const typename V::Piece pieces[4] = {V::LoadPiece(w), V::LoadPiece(w + 64), V::LoadPiece(w + 128),
                                         V::LoadPiece(w + 192)};
    DotColumns<V, T>(pieces, x.q + first + i, x.q_stride, sum);
  }
}

template <class V, int T>
inline void BlockSums(DotInt4, const QuantizedRows& x, const std::byte* panel, int64_t first, int64_t n,
                      typename V::Sum (&sum)[T]) {
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) sum[t] = V::Broadcast(0);
  for (int64_t k = first; k < first + n; k += DotInt4::kFormat.run) {
    typename V::Sum part[T];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      part[t] = V::Broadcast(LoadStart(x.start + t * x.start_stride + k / DotInt4::kFormat.run * 2));
    }
    const std::byte* w = DotInt4::Weights(panel, k);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, w += 128) {
      V::Prefetch(w);
      typename V::Piece pieces[4];
      V::SplitNibbles(w, pieces[0], pieces[1]);
      V::SplitNibbles(w + 64, pieces[2], pieces[3]);
      DotColumns<V, T>(pieces, x.q + k + 16 * half, x.q_stride, part);
    }
    const typename V::Sum factors = V::LoadSubScales(DotInt4::SubScales(panel, k));
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sum[t] = V::MultiplyAdd(sum[t], part[t], factors);
  }
}

// T rows of x against one panel: c += columns [begin, end), begin a multiple of the block; times the scales of the rows
// of w when the last column is done.
template <class V, class W, int T>
void DotTile(const QuantizedRows& x, const std::byte* panel, int64_t begin, int64_t end, bool last, float* c,
             int64_t c_stride) {
  constexpr int64_t kBlock = W::kFormat.block;
  typename V::Floats total[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) total[t] = begin == 0 ? V::ZeroFloats() : V::LoadFloats(c + t * c_stride);
  for (int64_t first = begin; first < end; first += kBlock) {
    typename V::Sum sum[T];
    BlockSums<V, T>(W{}, x, panel, first, end - first < kBlock ? end - first : kBlock, sum);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      total[t] = V::FloatMultiplyAdd(sum[t], x.scale[t * x.scale_stride + first / kBlock], total[t]);
    }
  }
  const typename V::Floats row_scale = V::LoadFloats(reinterpret_cast<const float*>(panel));
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) V::StoreFloats(c + t * c_stride, last ? V::Multiply(total[t], row_scale) : total[t]);
}

// Rows [first, ...) as rows of their own.
inline QuantizedRows DotRowsFrom(const QuantizedRows& x, int64_t first) {
  QuantizedRows rows = x;
  rows.q += first * x.q_stride;
  rows.start += first * x.start_stride;
  rows.scale += first * x.scale_stride;
  return rows;
}

// All rows against one panel, V::kTileRows at a time, then the rest one size smaller each time.
template <class V, class W, int T = V::kTileRows>
void DotPanel(const QuantizedRows& x, int64_t m_rows, const std::byte* panel, int64_t begin, int64_t end, bool last,
              float* c, int64_t c_stride) {
  int64_t m = 0;
  for (; m + T <= m_rows; m += T) {
    DotTile<V, W, T>(DotRowsFrom(x, m), panel, begin, end, last, c + m * c_stride, c_stride);
  }
  if constexpr (T > 1) {
    if (m < m_rows) {
      DotPanel<V, W, T - 1>(DotRowsFrom(x, m), m_rows - m, panel, begin, end, last, c + m * c_stride, c_stride);
    }
  }
}

template <class V, class W>
void DotFew(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
            int64_t padded_k, float* c, int64_t c_stride) {
  for (int64_t p = 0; p < n_panels; ++p) {
    DotPanel<V, W>(x, m_rows, panels + p * panel_bytes, 0, padded_k, true, c + p * kPanelRows, c_stride);
  }
}

// Some rows and columns at a time, so that they stay in the second-level cache for all panels.
template <class V, class W>
void DotMany(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
             int64_t padded_k, float* c, int64_t c_stride, std::byte*) {
  constexpr int64_t kCachedRows = 192;
  for (int64_t m = 0; m < m_rows; m += kCachedRows) {
    const int64_t rows = m_rows - m < kCachedRows ? m_rows - m : kCachedRows;
    for (int64_t begin = 0; begin < padded_k; begin += kUnpackColumns) {
      const bool last = padded_k - begin <= kUnpackColumns;
      const int64_t end = last ? padded_k : begin + kUnpackColumns;
      for (int64_t p = 0; p < n_panels; ++p) {
        DotPanel<V, W>(DotRowsFrom(x, m), rows, panels + p * panel_bytes, begin, end, last,
                       c + m * c_stride + p * kPanelRows, c_stride);
      }
    }
  }
}

}  // namespace
}  // namespace minicpm::kernels
