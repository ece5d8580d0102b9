// Implementation of thread_pool.h. One 64-bit word says which loop is running, whether it is open, and how many workers
// are inside; a worker that wakes up late finds the loop closed and never delays the owner.
#include "os/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "os/affinity.h"

namespace minicpm {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 64;

// state word: loop number << 32 | open flag | workers inside.
constexpr uint64_t kOpen = 1u << 31;
constexpr uint64_t kInsideMask = kOpen - 1;
constexpr uint64_t LoopNumber(uint64_t state) { return state >> 32; }

// Calls `done` until it is true, at most kSpinTime long. Returns its last answer.
template <class Done>
bool SpinUntil(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      CpuRelax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

}  // namespace

struct ThreadPool::Impl {
  // Written by the owner before `state` opens the loop, read by workers inside it.
  const FunctionRef<void(int64_t, int)>* fn = nullptr;
  int64_t n_tasks = 0;

  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<int64_t> next_task{0};
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake;

  int size = 1;
  std::vector<int> cores;  // empty: not pinned
  bool owner_pinned = false;
  std::vector<std::thread> workers;

  void RunTasks(int thread) {
    for (;;) {
      const int64_t task = next_task.fetch_add(1, std::memory_order_relaxed);
      if (task >= n_tasks) return;
      (*fn)(task, thread);
    }
  }

  // True when a loop newer than `seen` is (or was) there, or the pool stops.
  bool SomethingNew(uint64_t seen) const {
    return LoopNumber(state.load(std::memory_order_acquire)) != seen || stop.load(std::memory_order_relaxed);
  }

  void Sleep(uint64_t seen) {
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    // The owner publishes, then looks at `sleepers`; we announce ourselves, then look at `state`: one of us sees the
    // other.
    while (LoopNumber(state.load(std::memory_order_seq_cst)) == seen && !stop.load(std::memory_order_seq_cst)) {
      wake.wait(lock);
    }
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }

  void WorkerMain(int thread) {
    if (!cores.empty()) PinCurrentThread(cores[static_cast<size_t>(thread) % cores.size()]);
    uint64_t seen = 0;
    while (!stop.load(std::memory_order_acquire)) {
      if (!SpinUntil([&] { return SomethingNew(seen); })) Sleep(seen);
      uint64_t current = state.load(std::memory_order_acquire);
      while ((current & kOpen) != 0 && LoopNumber(current) != seen) {
        if (state.compare_exchange_weak(current, current + 1, std::memory_order_acquire)) {
          seen = LoopNumber(current);
          RunTasks(thread);
          state.fetch_sub(1, std::memory_order_release);
          current = state.load(std::memory_order_acquire);
        }
      }
      if ((current & kOpen) == 0) seen = LoopNumber(current);
    }
  }

  void Run(int64_t tasks, const FunctionRef<void(int64_t, int)>& function) {
    fn = &function;
    n_tasks = tasks;
    next_task.store(0, std::memory_order_relaxed);
    const uint64_t loop = LoopNumber(state.load(std::memory_order_relaxed)) + 1;
    state.store(loop << 32 | kOpen, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) {
      {
        const std::lock_guard lock(mutex);
      }
      wake.notify_all();
    }
    RunTasks(0);
    state.fetch_and(~kOpen, std::memory_order_acq_rel);
    const auto all_out = [&] { return (state.load(std::memory_order_acquire) & kInsideMask) == 0; };
    while (!SpinUntil(all_out)) std::this_thread::yield();
  }
};

ThreadPool::ThreadPool(int n_threads, bool pin) : impl_(std::make_unique<Impl>()) {
  impl_->size = std::max(n_threads, 1);
  if (pin) impl_->cores = AllowedCores();
  for (int i = 1; i < impl_->size; ++i) {
    impl_->workers.emplace_back([impl = impl_.get(), i] { impl->WorkerMain(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop.store(true, std::memory_order_seq_cst);
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::size() const { return impl_->size; }

void ThreadPool::ParallelFor(int64_t n_tasks, FunctionRef<void(int64_t task, int thread)> fn) {
  if (!impl_->cores.empty() && !impl_->owner_pinned) {
    PinCurrentThread(impl_->cores[0]);
    impl_->owner_pinned = true;
  }
  if (impl_->size == 1 || n_tasks <= 1) {
    for (int64_t task = 0; task < n_tasks; ++task) fn(task, 0);
    return;
  }
  impl_->Run(n_tasks, fn);
}

}  // namespace minicpm
