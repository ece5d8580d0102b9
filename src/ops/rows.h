// How row-wise operators share their rows between threads. Private to src/ops.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/compute.h"

namespace minicpm {

// Fewer floats than this in one task cost more to hand out than to compute.
inline constexpr int64_t kTaskFloats = 8192;

// Calls fn(begin, end) for runs of rows that cover [0, rows), `cols` floats of work each, from several threads when it
// pays.
template <class Fn>
void ForRows(Compute& compute, int64_t rows, int64_t cols, Fn fn) {
  const int64_t least = std::max<int64_t>(1, kTaskFloats / std::max<int64_t>(cols, 1));
  const int64_t fair = rows / (4 * compute.pool().size());
  const int64_t run = std::max(least, fair);
  const int64_t tasks = (rows + run - 1) / run;
  compute.pool().ParallelFor(tasks, [&](int64_t task, int) { fn(task * run, std::min(rows, (task + 1) * run)); });
}

// Calls fn(row, begin, end) for pieces of rows: also shares a single long row. For verbs where columns are independent.
template <class Fn>
void ForPieces(Compute& compute, int64_t rows, int64_t cols, Fn fn) {
  if (rows >= 4 * compute.pool().size() || rows * cols < 2 * kTaskFloats) {
    ForRows(compute, rows, cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) fn(r, int64_t{0}, cols);
    });
    return;
  }
  const int64_t pieces = (cols + kTaskFloats - 1) / kTaskFloats;
  compute.pool().ParallelFor(rows * pieces, [&](int64_t task, int) {
    const int64_t begin = task % pieces * kTaskFloats;
    fn(task / pieces, begin, std::min(cols, begin + kTaskFloats));
  });
}

}  // namespace minicpm
