// Tests of the thread pool: every task once, many loops in a row, waking after sleep, no allocation.
#include "os/thread_pool.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace minicpm {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  for (const int64_t n : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
    std::atomic<bool> thread_in_range{true};
    pool.ParallelFor(n, [&](int64_t task, int thread) {
      hits[static_cast<size_t>(task)].fetch_add(1);
      if (thread < 0 || thread >= pool.size()) thread_in_range = false;
    });
    for (const auto& h : hits) EXPECT_EQ(h.load(), 1);
    EXPECT_TRUE(thread_in_range);
  }
}

// Plain (non-atomic) data written in one loop and read in the next: the thread sanitizer sees a missing edge here.
TEST_P(ThreadPoolTest, LoopsAreOrdered) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> a(64, 0);
  std::vector<int64_t> b(64, 0);
  for (int round = 0; round < 5000; ++round) {
    pool.ParallelFor(64, [&](int64_t i, int) { a[static_cast<size_t>(i)] = b[static_cast<size_t>(63 - i)] + 1; });
    pool.ParallelFor(64, [&](int64_t i, int) { b[static_cast<size_t>(i)] = a[static_cast<size_t>(63 - i)] + 1; });
  }
  for (const int64_t v : b) EXPECT_EQ(v, 10000);
}

TEST_P(ThreadPoolTest, WakesSleepers) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    std::atomic<int> sum{0};
    pool.ParallelFor(10, [&](int64_t task, int) { sum += static_cast<int>(task); });
    EXPECT_EQ(sum.load(), 45);
  }
}

// All threads must meet inside one loop, so a pool that leaves a worker asleep hangs here (and times out).
TEST_P(ThreadPoolTest, AllThreadsTakePart) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> arrived{0};
    pool.ParallelFor(pool.size(), [&](int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < pool.size()) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), pool.size());
  }
}

TEST_P(ThreadPoolTest, StartsAndStops) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(GetParam());
    if (round % 2 == 0) pool.ParallelFor(3, [](int64_t, int) {});
  }
}

TEST_P(ThreadPoolTest, MovesBetweenOwners) {
  ThreadPool pool(GetParam());
  int64_t total = 0;
  for (int owner = 0; owner < 10; ++owner) {
    std::thread([&] {
      std::atomic<int64_t> sum{0};
      pool.ParallelFor(100, [&](int64_t task, int) { sum += task; });
      total += sum;
    }).join();
  }
  EXPECT_EQ(total, 10 * 4950);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, testing::Values(1, 2, 3, 5));

TEST(ThreadPool, SizeIsAtLeastOne) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.size(), 1);
}

TEST(ThreadPool, PinnedPoolWorks) {
  std::thread([] {  // pinning the owner must not leak into the other tests
    ThreadPool pool(2, true);
    std::atomic<int> sum{0};
    pool.ParallelFor(100, [&](int64_t, int) { sum += 1; });
    EXPECT_EQ(sum.load(), 100);
  })
      .join();
}

}  // namespace
}  // namespace minicpm
