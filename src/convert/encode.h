// From rows of a source tensor to the bytes a bundle stores, in parallel, the same bytes for any number of threads. Not
// for reading or writing files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "convert/recipe.h"
#include "os/thread_pool.h"
#include "quant/packed.h"

namespace minicpm {

// How a tensor is cut into blocks: whole panels for packed formats, otherwise any run of elements.
struct BlockShape {
  int64_t n_rows = 0;        // of the tensor, seen as [n_rows, n_columns]
  int64_t n_columns = 0;     // packed: K; otherwise 1
  int64_t rows_at_once = 0;  // > 0; a multiple of 16 for packed formats
  uint64_t source_row_bytes = 0;
};
BlockShape BlockShapeOf(const PlannedTensor& tensor, uint64_t most_source_bytes);

// Stored bytes of rows [0, n_rows) of the tensor (packed: a multiple of 16, or all of them).
uint64_t StoredBytesOfRows(const PlannedTensor& tensor, const BlockShape& shape, int64_t n_rows);

// Threads: one user at a time.
class Encoder {
 public:
  explicit Encoder(ThreadPool& pool) : pool_(pool) {}

  // Encodes rows [first_row, first_row + n_rows) of `tensor`, whose source bytes are `source`; the result is valid
  // until the next call. `stats` grows by what packing cost. Errors: kCorrupt for NaN and infinity, kUnsupported for a
  // value that f16 cannot hold; each sentence names tensor, place and value.
  Result<std::span<const std::byte>> Encode(const PlannedTensor& tensor, const BlockShape& shape, int64_t first_row,
                                            int64_t n_rows, std::span<const std::byte> source,
                                            quant::EncodeStats& stats);

 private:
  Status Pack(const PlannedTensor& tensor, const BlockShape& shape, int64_t first_row, int64_t n_rows,
              std::span<const std::byte> source, quant::EncodeStats& stats);
  Status Convert(const PlannedTensor& tensor, int64_t first, int64_t n, std::span<const std::byte> source);

  ThreadPool& pool_;
  std::vector<std::byte> out_;
  std::vector<std::vector<float>> scratch_;  // of each thread
};

}  // namespace minicpm
