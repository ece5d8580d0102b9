// Implementation of probe.h. A round starts when all threads are there and ends with the last of them.
#include "probe/probe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/limit/limit.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/memory.h"

namespace minicpm {
namespace {

// Seconds from the common start of work(thread) on every thread of the pool to the last end.
template <class Work>
double TimeTogether(ThreadPool& pool, Work work) {
  struct Times {
    double begin, end;
  };
  std::vector<Times> times(static_cast<size_t>(pool.size()));
  std::atomic<int> arrived{0};
  // As many tasks as threads, and nobody leaves before all have come: every thread takes exactly one.
  pool.ParallelFor(pool.size(), [&](int64_t task, int) {
    arrived.fetch_add(1);
    while (arrived.load() < pool.size()) CpuRelax();
    Times& t = times[static_cast<size_t>(task)];
    t.begin = NowMs();
    work(static_cast<int>(task));
    t.end = NowMs();
  });
  double begin = times[0].begin;
  double end = times[0].end;
  for (const Times& t : times) {
    begin = std::min(begin, t.begin);
    end = std::max(end, t.end);
  }
  return std::max(end - begin, 1e-6) / 1e3;
}

template <class Round>
double Median(int rounds, Round round) {
  std::vector<double> values;
  for (int i = 0; i < std::max(rounds, 1); ++i) values.push_back(round());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Median rate, in 10^9 operations per second, of loop(turns) on all threads of the pool.
template <class Number>
double MeasureLoop(ThreadPool& pool, Number (*loop)(int64_t), int64_t ops_per_turn, int rounds, double milliseconds) {
  std::atomic<int> sink{0};
  const auto run = [&](int64_t turns) {
    return TimeTogether(pool, [&](int) {
      if (loop(turns) > static_cast<Number>(1 << 30)) sink.fetch_add(1, std::memory_order_relaxed);
    });
  };
  int64_t turns = 10000;
  double seconds = run(turns);
  while (seconds < 1e-3) {
    turns *= 4;
    seconds = run(turns);
  }
  turns = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(turns) * milliseconds / 1e3 / seconds));
  const double ops = static_cast<double>(ops_per_turn) * static_cast<double>(turns) * pool.size();
  return Median(rounds, [&] { return ops / run(turns) / 1e9; });
}

}  // namespace

Result<ReadProbe> ReadProbe::Create(ThreadPool& pool, const kernels::KernelTable& kernels, size_t bytes) {
  constexpr size_t kAlign = 4096;
  const auto threads = static_cast<size_t>(pool.size());
  const size_t share = bytes / threads / kAlign * kAlign;
  if (share == 0) return Fail(ErrorCode::kInvalidArgument, "probe: expected at least a page per thread");
  const uint64_t available = AvailableMemoryBytes();
  if (available != 0 && available / 2 < bytes) {
    return Fail(ErrorCode::kResourceExhausted, "probe: expected " + std::to_string(2 * bytes) +
                                                   " bytes of free memory, found " + std::to_string(available));
  }
  MINICPM_ASSIGN(PageBlock block, PageBlock::Allocate(share * threads));
  // Untouched pages all read as one page of zeros, from the cache: write every one, by the thread that will read it.
  std::byte* const data = block.bytes().data();
  pool.ParallelFor(pool.size(), [&](int64_t i, int) { std::memset(data + static_cast<size_t>(i) * share, 1, share); });
  return ReadProbe(pool, kernels, std::move(block));
}

double ReadProbe::MeasureGbPerS(int rounds) {
  const size_t bytes = block_.bytes().size();
  const size_t share = bytes / static_cast<size_t>(pool_->size());
  std::atomic<uint64_t> sink{0};
  return Median(rounds, [&] {
    const double seconds = TimeTogether(*pool_, [&](int i) {
      const std::byte* const begin = block_.bytes().data() + static_cast<size_t>(i) * share;
      sink.fetch_xor(kernels_->limit->read(begin, static_cast<int64_t>(share)), std::memory_order_relaxed);
    });
    return static_cast<double>(bytes) / seconds / 1e9;
  });
}

double MeasureF32GflopPerS(ThreadPool& pool, const kernels::KernelTable& kernels, int rounds, double milliseconds) {
  const kernels::LimitKernels& limit = *kernels.limit;
  return MeasureLoop(pool, limit.multiply_add, limit.flops_per_turn, rounds, milliseconds);
}

double MeasureInt8GopPerS(ThreadPool& pool, const kernels::KernelTable& kernels, int rounds, double milliseconds) {
  const kernels::LimitKernels& limit = *kernels.limit;
  return MeasureLoop(pool, limit.int8_mix, limit.int8_ops_per_turn, rounds, milliseconds);
}

double MeasureInt4GopPerS(ThreadPool& pool, const kernels::KernelTable& kernels, int rounds, double milliseconds) {
  const kernels::LimitKernels& limit = *kernels.limit;
  return MeasureLoop(pool, limit.int4_mix, limit.int4_ops_per_turn, rounds, milliseconds);
}

}  // namespace minicpm
