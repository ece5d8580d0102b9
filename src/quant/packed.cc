// Implementation of packed.h: sizes, decoding, checks. Encoding is in encode.cc.
#include "quant/packed.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "quant/check_finite.h"

namespace minicpm::quant {
namespace {

int64_t RoundUp(int64_t k, int64_t step) { return (k + step - 1) / step * step; }

const uint8_t* PanelOf(const TensorView& table, int64_t row) {
  MINICPM_CHECK(IsPacked(table.dtype) && table.shape.rank() == 2 && row >= 0 && row < table.shape[0]);
  return static_cast<const uint8_t*>(table.data) + row / kPanelRows * PanelBytes(table.dtype, table.shape[1]);
}

int SubScale(const uint8_t* block, int64_t group, int row) {
  return static_cast<int8_t>(block[group * kPanelRows + SubScaleSlot(row)]);
}

// q - zero point of one row of an INT8 panel.
void Int8Row(const uint8_t* panel, int row, int64_t padded, int32_t* out) {
  const uint8_t* p = panel + kPanelHeaderBytes + 4 * row;
  for (int64_t k = 0; k < padded; k += 4, p += 4 * kPanelRows) {
    for (int c = 0; c < 4; ++c) out[k + c] = p[c] - kInt8Zero;
  }
}

// sub-scale * (q - zero point) of one row of an INT4 panel.
void Int4Row(const uint8_t* panel, int row, int64_t padded, int32_t* out) {
  const uint8_t* block = panel + kPanelHeaderBytes;
  for (int64_t k = 0; k < padded; k += kInt4Columns, block += kInt4BlockBytes) {
    for (int64_t j = 0; j < kInt4Columns; j += 8) {
      const uint8_t* p = block + 64 + j / 8 * 64 + 4 * row;
      const int t = SubScale(block, j / kInt4Group, row);
      for (int c = 0; c < 4; ++c) {
        out[k + j + c] = t * ((p[c] & 15) - kInt4Zero);
        out[k + j + 4 + c] = t * ((p[c] >> 4) - kInt4Zero);
      }
    }
  }
}

std::string Place(int64_t row, int64_t column) {
  return "row " + std::to_string(row) + ", column " + std::to_string(column);
}

Status CheckInt8Row(const int32_t* q, int64_t padded, int64_t row) {
  for (int64_t k = 0; k < padded; ++k) {
    if (std::abs(q[k]) > kInt8Most) return Fail(ErrorCode::kCorrupt, Place(row, k) + ": not a 7-bit weight");
  }
  for (int64_t k = 0; k < padded; k += kInt8Columns) {
    for (int half = 0; half < 4; half += 2) {
      int64_t sum = 0;
      for (int64_t j = k; j < k + kInt8Columns; j += 4) sum += std::abs(q[j + half]) + std::abs(q[j + half + 1]);
      if (sum > kInt8LaneLimit) {
        return Fail(ErrorCode::kCorrupt, Place(row, k) + ": weights that 16-bit sums cannot hold");
      }
    }
  }
  return {};
}

}  // namespace

Status CheckFinite(const float* w, int64_t n, int64_t row) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(w[i])) continue;
    return Fail(ErrorCode::kCorrupt, "row " + std::to_string(row) + ", column " + std::to_string(i) +
                                         ": expected a finite number, found " +
                                         (std::isnan(w[i]) ? "NaN" : "infinity"));
  }
  return {};
}

int64_t PaddedColumns(DType dtype, int64_t k) {
  MINICPM_CHECK(IsPacked(dtype));
  return RoundUp(k, dtype == DType::kInt8Packed ? kInt8Columns : kInt4Columns);
}

int64_t PanelBytes(DType dtype, int64_t k) {
  const int64_t padded = PaddedColumns(dtype, k);
  return kPanelHeaderBytes +
         (dtype == DType::kInt8Packed ? padded * kPanelRows : padded / kInt4Columns * kInt4BlockBytes);
}

int64_t PackedBytes(DType dtype, int64_t n, int64_t k) {
  return RoundUp(n, kPanelRows) / kPanelRows * PanelBytes(dtype, k);
}

std::optional<int64_t> CheckedPackedBytes(DType dtype, int64_t n, int64_t k) {
  constexpr int64_t kMost = int64_t{1} << 40;  // per dimension and for the product: far beyond any model
  if (!IsPacked(dtype) || n < 1 || k < 1 || n > kMost || k > kMost || n > kMost / k) return std::nullopt;
  return PackedBytes(dtype, n, k);
}

size_t BytesOf(const TensorView& t) {
  return IsPacked(t.dtype) ? static_cast<size_t>(PackedBytes(t.dtype, t.shape[0], t.shape[1])) : t.bytes();
}

float RowScale(const TensorView& table, int64_t row) {
  float scale;
  std::memcpy(&scale, PanelOf(table, row) + 4 * (row % kPanelRows), sizeof scale);
  return scale;
}

void DecodeIntegers(const TensorView& table, int64_t row, int32_t* out) {
  const uint8_t* const panel = PanelOf(table, row);
  const int64_t padded = PaddedColumns(table.dtype, table.shape[1]);
  const int r = static_cast<int>(row % kPanelRows);
  table.dtype == DType::kInt8Packed ? Int8Row(panel, r, padded, out) : Int4Row(panel, r, padded, out);
}

void DecodeRow(const TensorView& table, int64_t row, float* out) {
  const uint8_t* const panel = PanelOf(table, row);
  const float scale = RowScale(table, row);
  const int r = static_cast<int>(row % kPanelRows);
  const int64_t k = table.shape[1];
  // A block at a time: no room for a whole row is needed.
  int32_t q[kInt4Columns];
  if (table.dtype == DType::kInt8Packed) {
    for (int64_t i = 0; i < k; i += 4) {
      Int8Row(panel + i * kPanelRows, r, 4, q);
      for (int64_t j = 0; j < 4 && i + j < k; ++j) out[i + j] = scale * static_cast<float>(q[j]);
    }
    return;
  }
  for (int64_t i = 0; i < k; i += kInt4Columns) {
    Int4Row(panel + i / kInt4Columns * kInt4BlockBytes, r, kInt4Columns, q);
    for (int64_t j = 0; j < kInt4Columns && i + j < k; ++j) out[i + j] = scale * static_cast<float>(q[j]);
  }
}

Status CheckPacked(const TensorView& table) {
  const int64_t padded = PaddedColumns(table.dtype, table.shape[1]);
  std::vector<int32_t> q(static_cast<size_t>(padded));
  for (int64_t row = 0; row < table.shape[0]; ++row) {
    if (!std::isfinite(RowScale(table, row))) {
      return Fail(ErrorCode::kCorrupt, "row " + std::to_string(row) + ": its scale is not a finite number");
    }
    if (table.dtype == DType::kInt8Packed) {
      DecodeIntegers(table, row, q.data());
      MINICPM_TRY(CheckInt8Row(q.data(), padded, row));
      continue;
    }
    const uint8_t* block = PanelOf(table, row) + kPanelHeaderBytes;
    for (int64_t k = 0; k < padded; k += kInt4Group) {
      if (SubScale(block + k / kInt4Columns * kInt4BlockBytes, k % kInt4Columns / kInt4Group,
                   static_cast<int>(row % kPanelRows)) == -128) {
        return Fail(ErrorCode::kCorrupt, Place(row, k) + ": sub-scale -128 is outside -127..127");
      }
    }
  }
  return {};
}

TensorView PackedRows(const TensorView& table, int64_t first, int64_t n) {
  MINICPM_CHECK(IsPacked(table.dtype) && table.shape.rank() == 2);
  MINICPM_CHECK(first % kPanelRows == 0 && first >= 0 && n >= 0 && first + n <= table.shape[0]);
  const int64_t k = table.shape[1];
  return {static_cast<const std::byte*>(table.data) + first / kPanelRows * PanelBytes(table.dtype, k), table.dtype,
          Shape{n, k}};
}

}  // namespace minicpm::quant
