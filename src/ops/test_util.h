// Helpers of the tests of ops: a Compute for every instruction set this CPU can run, padded matrices, comparisons.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/test_util.h"
#include "ops/compute.h"
#include "tensor/tensor.h"

namespace minicpm::testing_util {

// Names of the compiled instruction sets that this CPU runs.
inline std::vector<std::string> RunnableIsas() {
  std::vector<std::string> names;
  for (const kernels::KernelTable* table : RunnableTables()) names.emplace_back(table->isa);
  return names;
}

inline std::unique_ptr<Compute> MakeCompute(const std::string& isa, int n_threads) {
  ComputeOptions options;
  options.isa = isa;
  options.n_threads = n_threads;
  auto compute = Compute::Create(options);
  EXPECT_TRUE(compute.has_value());
  return std::move(compute).value();
}

// A matrix whose rows lie `gap` floats apart beyond their width, filled by `fill`.
struct Padded {
  Padded(int64_t rows, int64_t cols, int64_t gap, float fill = -77.0f)
      : data(static_cast<size_t>(rows * (cols + gap)), fill), view(data.data(), rows, cols, cols + gap) {}
  Padded(const Padded&) = delete;
  Padded& operator=(const Padded&) = delete;
  void Fill(Numbers& numbers) {
    for (float& f : data) f = numbers.Next();
  }
  std::vector<float> data;
  Matrix view;
};

// Allocations of this program so far (allocation_counter.cc).
int64_t Allocations();

// max |a - b| <= r * max |b|, the project's "within r".
inline void ExpectWithin(const std::vector<double>& expected, ConstMatrix actual, double r, const std::string& what) {
  double worst = 0;
  double largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < actual.rows; ++i) {
    for (int64_t j = 0; j < actual.cols; ++j) {
      const double e = expected[static_cast<size_t>(i * actual.cols + j)];
      finite = finite && std::isfinite(actual.row(i)[j]);
      worst = std::fmax(worst, std::fabs(actual.row(i)[j] - e));
      largest = std::fmax(largest, std::fabs(e));
    }
  }
  EXPECT_TRUE(finite) << what;
  EXPECT_LE(worst, r * largest) << what;
}

inline bool SameBits(ConstMatrix a, ConstMatrix b) {
  if (a.rows != b.rows || a.cols != b.cols) return false;
  for (int64_t r = 0; r < a.rows; ++r) {
    if (std::memcmp(a.row(r), b.row(r), static_cast<size_t>(a.cols) * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace minicpm::testing_util
