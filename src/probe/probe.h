// Measures what this machine can do at most, with the caller's threads: the yardsticks for every share that is
// reported. Not a benchmark of our own work: see bench/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "kernels/table.h"
#include "os/page_block.h"
#include "os/thread_pool.h"

namespace minicpm {

// Streaming read: one sequential stream per thread of `pool`, 2 MiB pages where the system offers them.
// Keeps its block, so that a measurement before and one after some work cost only the reading.
class ReadProbe {
 public:
  static constexpr size_t kDefaultBytes = size_t{1} << 30;  // far beyond any cache
  // Lifetime: pool and kernels outlive it. Threads: the pool's owner only.
  // Errors: kResourceExhausted when the machine has not twice as much memory free.
  static Result<ReadProbe> Create(ThreadPool& pool, const kernels::KernelTable& kernels, size_t bytes = kDefaultBytes);
  // Median over `rounds` (>= 1), in 10^9 bytes per second.
  double MeasureGbPerS(int rounds = 7);

 private:
  ReadProbe(ThreadPool& pool, const kernels::KernelTable& kernels, PageBlock block)
      : pool_(&pool), kernels_(&kernels), block_(std::move(block)) {}
  ThreadPool* pool_;
  const kernels::KernelTable* kernels_;
  PageBlock block_;
};

// Float32 multiply-adds in registers on all threads of `pool`: median over `rounds` (>= 1) of `milliseconds` each, in
// 10^9 operations per second (a multiply-add counts two).
double MeasureF32GflopPerS(ThreadPool& pool, const kernels::KernelTable& kernels, int rounds = 7,
                           double milliseconds = 30);
// The same for products of 8-bit integers, and of 4-bit weights by 8-bit activations, in 10^9 operations per second:
// LimitKernels::int8_mix, int4_mix.
double MeasureInt8GopPerS(ThreadPool& pool, const kernels::KernelTable& kernels, int rounds = 7,
                          double milliseconds = 30);
double MeasureInt4GopPerS(ThreadPool& pool, const kernels::KernelTable& kernels, int rounds = 7,
                          double milliseconds = 30);

}  // namespace minicpm
