// ThreadPool: fixed threads that run one parallel loop at a time for one owner. Not a task queue.
// Workers spin for a short while after a loop, then sleep, so that back-to-back operators start without a system call.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace minicpm {

// Threads: ParallelFor and Run may be called by one thread at a time (the owner, who takes part as thread 0).
class ThreadPool {
 public:
  // n_threads >= 1, the caller included: n_threads - 1 workers are started. pin = one core each, in the order of the
  // process's affinity mask.
  explicit ThreadPool(int n_threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Calls fn(task, thread) for every task in [0, n_tasks); threads take the next task from a counter, thread is in
  // [0, size()). Returns when all are done. Allocates nothing. Results must not depend on who ran what.
  void ParallelFor(int64_t n_tasks, FunctionRef<void(int64_t task, int thread)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Cores this process may use (affinity mask and cgroup quota), at least 1.
int UsableCores();

}  // namespace minicpm
