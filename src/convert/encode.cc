// Implementation of encode.h.
#include "convert/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/half.h"

namespace minicpm {
namespace {

constexpr int64_t kElementsPerTask = 1 << 16;

void ToFloats(DType dtype, const std::byte* from, int64_t n, float* out) {
  const auto* const halves = reinterpret_cast<const uint16_t*>(from);
  if (dtype == DType::kF32) {
    std::memcpy(out, from, static_cast<size_t>(n) * sizeof(float));
  } else if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < n; ++i) out[i] = Bf16ToF32(halves[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = F16ToF32(halves[i]);
  }
}

std::string PlaceIn(const PlannedTensor& tensor, int64_t element) {
  const int64_t columns = std::max<int64_t>(tensor.shape.rank() == 0 ? 1 : tensor.shape[tensor.shape.rank() - 1], 1);
  return "tensor \"" + Printable(tensor.name) + "\", row " + std::to_string(element / columns) + ", column " +
         std::to_string(element % columns);
}

std::unexpected<Error> NotFinite(const PlannedTensor& tensor, int64_t element, float value) {
  return Fail(ErrorCode::kCorrupt, PlaceIn(tensor, element) + ": expected a finite number, found " +
                                       (std::isnan(value) ? "NaN" : "infinity"));
}

// First element of [0, n) whose value no finite number of `dtype` stands for; n when there is none.
int64_t FirstOutside(DType dtype, const float* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i]) || (dtype == DType::kF16 && std::fabs(values[i]) >= 65520.0f) ||
        (dtype == DType::kBF16 && (F32ToBf16(values[i]) & 0x7f80) == 0x7f80)) {
      return i;
    }
  }
  return n;
}

void FromFloats(DType dtype, const float* from, int64_t n, std::byte* out) {
  auto* const halves = reinterpret_cast<uint16_t*>(out);
  if (dtype == DType::kF32) {
    std::memcpy(out, from, static_cast<size_t>(n) * sizeof(float));
  } else if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < n; ++i) halves[i] = F32ToBf16(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) halves[i] = F32ToF16(from[i]);
  }
}

}  // namespace

BlockShape BlockShapeOf(const PlannedTensor& tensor, uint64_t most_source_bytes) {
  BlockShape shape;
  const bool packed = IsPacked(tensor.dtype);
  shape.n_rows = packed ? tensor.shape[0] : tensor.shape.elements();
  shape.n_columns = packed ? tensor.shape[1] : 1;
  shape.source_row_bytes = static_cast<uint64_t>(shape.n_columns) * SizeOf(tensor.source_dtype);
  const int64_t step = packed ? quant::kPanelRows : kElementsPerTask;
  const auto fits = static_cast<int64_t>(most_source_bytes / std::max<uint64_t>(shape.source_row_bytes, 1));
  shape.rows_at_once = std::max(fits / step, int64_t{1}) * step;
  return shape;
}

uint64_t StoredBytesOfRows(const PlannedTensor& tensor, const BlockShape& shape, int64_t n_rows) {
  if (n_rows == 0) return 0;
  return IsPacked(tensor.dtype) ? static_cast<uint64_t>(quant::PackedBytes(tensor.dtype, n_rows, shape.n_columns))
                                : static_cast<uint64_t>(n_rows) * SizeOf(tensor.dtype);
}

Result<std::span<const std::byte>> Encoder::Encode(const PlannedTensor& tensor, const BlockShape& shape,
                                                   int64_t first_row, int64_t n_rows, std::span<const std::byte> source,
                                                   quant::EncodeStats& stats) {
  if (tensor.dtype == tensor.source_dtype) return source;
  out_.resize(StoredBytesOfRows(tensor, shape, n_rows));
  scratch_.resize(static_cast<size_t>(pool_.size()));
  if (IsPacked(tensor.dtype)) {
    MINICPM_TRY(Pack(tensor, shape, first_row, n_rows, source, stats));
  } else {
    MINICPM_TRY(Convert(tensor, first_row, n_rows, source));
  }
  return std::span<const std::byte>(out_);
}

Status Encoder::Pack(const PlannedTensor& tensor, const BlockShape& shape, int64_t first_row, int64_t n_rows,
                     std::span<const std::byte> source, quant::EncodeStats& stats) {
  const int64_t k = shape.n_columns;
  const int64_t n_panels = (n_rows + quant::kPanelRows - 1) / quant::kPanelRows;
  const int64_t panel_bytes = quant::PanelBytes(tensor.dtype, k);
  std::vector<quant::EncodeStats> panel_stats(static_cast<size_t>(n_panels));
  std::vector<Status> results(static_cast<size_t>(n_panels));
  pool_.ParallelFor(n_panels, [&](int64_t panel, int thread) {
    const auto at = static_cast<size_t>(panel);
    const int64_t row = panel * quant::kPanelRows;
    const int64_t rows = std::min(quant::kPanelRows, n_rows - row);
    std::vector<float>& w = scratch_[static_cast<size_t>(thread)];
    w.resize(std::max(w.size(), static_cast<size_t>(rows * k)));
    ToFloats(tensor.source_dtype, source.data() + static_cast<uint64_t>(row) * shape.source_row_bytes, rows * k,
             w.data());
    if (const int64_t bad = FirstOutside(DType::kF32, w.data(), rows * k); bad < rows * k) {
      results[at] = NotFinite(tensor, (first_row + row) * k + bad, w[static_cast<size_t>(bad)]);
      return;
    }
    results[at] = quant::EncodePanel(tensor.dtype, w.data(), k, rows, k, quant::Search::kLeastSquares,
                                     out_.data() + panel * panel_bytes, panel_stats[at]);
  });
  // In the order of the rows: sums and the error shown do not depend on who was first.
  for (size_t i = 0; i < results.size(); ++i) {
    MINICPM_TRY(std::move(results[i]));
    stats.error += panel_stats[i].error;
    stats.energy += panel_stats[i].energy;
    stats.n_limited += panel_stats[i].n_limited;
  }
  return {};
}

Status Encoder::Convert(const PlannedTensor& tensor, int64_t first, int64_t n, std::span<const std::byte> source) {
  const int64_t n_tasks = (n + kElementsPerTask - 1) / kElementsPerTask;
  std::vector<Status> results(static_cast<size_t>(n_tasks));
  pool_.ParallelFor(n_tasks, [&](int64_t task, int thread) {
    const int64_t begin = task * kElementsPerTask;
    const int64_t count = std::min(kElementsPerTask, n - begin);
    std::vector<float>& values = scratch_[static_cast<size_t>(thread)];
    values.resize(std::max(values.size(), static_cast<size_t>(kElementsPerTask)));
    const auto offset = static_cast<size_t>(begin);
    ToFloats(tensor.source_dtype, source.data() + offset * SizeOf(tensor.source_dtype), count, values.data());
    if (const int64_t bad = FirstOutside(tensor.dtype, values.data(), count); bad < count) {
      const float value = values[static_cast<size_t>(bad)];
      results[static_cast<size_t>(task)] =
          std::isfinite(value)
              ? Fail(ErrorCode::kUnsupported, PlaceIn(tensor, first + begin + bad) + ": " + std::to_string(value) +
                                                  " is too large for " + NameOf(tensor.dtype))
              : NotFinite(tensor, first + begin + bad, value);
      return;
    }
    FromFloats(tensor.dtype, values.data(), count, out_.data() + offset * SizeOf(tensor.dtype));
  });
  for (Status& result : results) MINICPM_TRY(std::move(result));
  return {};
}

}  // namespace minicpm
