// Implementation of embedding.h.
#include "ops/embedding.h"

#include "ops/convert.h"
#include "ops/rows.h"
#include "quant/packed.h"

namespace minicpm {

void GatherRows(Compute& compute, const TensorView& table, std::span<const int32_t> ids, Matrix out) {
  MINICPM_CHECK(table.shape.rank() == 2 && table.shape[1] == out.cols);
  MINICPM_CHECK(static_cast<int64_t>(ids.size()) == out.rows);
  const auto* data = static_cast<const std::byte*>(table.data);
  const int64_t width = table.shape[1];
  const size_t row_bytes = IsPacked(table.dtype) ? 0 : static_cast<size_t>(width) * SizeOf(table.dtype);
  ForRows(compute, out.rows, width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int32_t id = ids[static_cast<size_t>(r)];
      MINICPM_CHECK(id >= 0 && id < table.shape[0]);
      if (IsPacked(table.dtype)) {
        quant::DecodeRow(table, id, out.row(r));
        continue;
      }
      ToFloat(compute, {data + static_cast<size_t>(id) * row_bytes, table.dtype, Shape{width}}, out.row(r));
    }
  });
}

}  // namespace minicpm
