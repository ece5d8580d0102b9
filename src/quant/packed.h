// Packed quantised matrices: the layout of INT4 and INT8 weights [N, K] and its plain scalar encoding and decoding, the
// truth for kernels, convert and export. Not for activations (kernels/qmatmul) or for choosing formats (src/convert).
//
// A matrix is a run of panels of 16 rows; the last one is filled up with rows of scale 0. A panel is
//   64 bytes  16 float32: the scale of each row, s[r]
//   then blocks of columns; K is padded to whole blocks with weights of value 0:
// INT8 (7 bits, zero point 64), blocks of 4 columns, 64 bytes:
//   byte 4 r + c = q[r][4 b + c], 1..127;  w[r][k] = s[r] * (q - 64)
//   K is padded to a multiple of 16. In every 16 columns of a row, from a multiple of 16, the sum of |q - 64| over the
//   columns with k % 4 < 2, and over those with k % 4 >= 2, is at most 258: then the 16-bit sums of the kernels cannot
//   overflow for any input within +-127 (258 * 127 = 32766).
// INT4 (zero point 8), groups of 32 columns, blocks of 128 columns, 64 + 1024 bytes:
//   64 bytes  int8 sub-scales t: group g of the block (4), row r: byte 16 g + SubScaleSlot(r)
//   1024      16 pieces of 64 bytes, 8 columns each: byte 4 r + c of piece p = q[r][8 p + c] | q[r][8 p + 4 + c] << 4
//   w[r][k] = s[r] * t[r][k / 32] * (q - 8), q 0..15, t -127..127
// Sums of 16 products |q - 8| * 127 fit 16 bits with room (16256).
// All multi-byte values are little-endian; a panel is a multiple of 64 bytes; panels of the same K have the same size,
// so rows [16 i, ...) of a matrix are a matrix of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "tensor/tensor.h"

namespace minicpm::quant {

inline constexpr int kLayoutVersion = 1;  // stands in bundle.json beside every packed tensor
inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kPanelHeaderBytes = 64;
inline constexpr int64_t kInt8Columns = 16;  // K of INT8 is padded to a multiple of this
inline constexpr int64_t kInt8LaneLimit = 258;
inline constexpr int kInt8Zero = 64;
inline constexpr int kInt8Most = 63;          // |q - zero| of INT8
inline constexpr int64_t kInt4Columns = 128;  // K of INT4 is padded to a multiple of this
inline constexpr int64_t kInt4Group = 32;
inline constexpr int64_t kInt4BlockBytes = 64 + kInt4Columns / 2 * kPanelRows;  // 1088
inline constexpr int kInt4Zero = 8;

// Where the sub-scale of row r stands among the 16 of its group: 0-3, 8-11, 4-7, 12-15, so that two interleaving
// instructions of AVX2 bring rows 0-7 and 8-15 into order.
constexpr int SubScaleSlot(int r) { return (r & 3) | (r & 4) << 1 | (r & 8) >> 1; }

// K with padding.
int64_t PaddedColumns(DType dtype, int64_t k);
int64_t PanelBytes(DType dtype, int64_t k);
// Bytes of a whole matrix. Requires: packed dtype; n, k >= 1.
int64_t PackedBytes(DType dtype, int64_t n, int64_t k);
// The same for values from outside: nothing when a size is below 1 or the product overflows.
std::optional<int64_t> CheckedPackedBytes(DType dtype, int64_t n, int64_t k);
// Bytes of any tensor, packed or not.
size_t BytesOf(const TensorView& t);

// How much an encoder may search. kNearest: scales from the largest value, for comparison.
enum class Search { kNearest, kLeastSquares };

struct EncodeStats {
  double error = 0;       // sum of (w - decoded)^2
  double energy = 0;      // sum of w^2
  int64_t n_limited = 0;  // INT8: half-lanes whose largest weights were reduced to keep the promise above
};

// Encodes rows [0, rows) of w [rows, K] f32, rows <= 16, into one panel. Values must be finite: kCorrupt names
// row and column otherwise. Deterministic. panel: PanelBytes(dtype, k), any alignment.
Status EncodePanel(DType dtype, const float* w, int64_t w_stride, int64_t rows, int64_t k, Search search,
                   std::byte* panel, EncodeStats& stats);

// out[k] = w[row][k], k < table.shape[1]. table: a packed matrix [N, K].
void DecodeRow(const TensorView& table, int64_t row, float* out);
// The integers of a row: q - zero point (INT4: times the sub-scale), padded columns included.
void DecodeIntegers(const TensorView& table, int64_t row, int32_t* out);
float RowScale(const TensorView& table, int64_t row);

// Checks what kernels rely on: for INT8 bytes 1..127 and the lane limit, for INT4 sub-scales above -128 and finite
// scales. Reads everything; meant for verify. Errors: kCorrupt with row and column.
Status CheckPacked(const TensorView& table);

// Rows [first, first + n) as a matrix of their own. Requires: first is a multiple of kPanelRows.
TensorView PackedRows(const TensorView& table, int64_t first, int64_t n);

}  // namespace minicpm::quant
