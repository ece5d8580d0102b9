// Helpers of the tests of ops: seeded numbers, weights in every storage format, the instruction sets this CPU can run.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "gtest/gtest.h"
#include "kernels/table.h"
#include "ops/compute.h"
#include "tensor/tensor.h"

namespace minicpm::testing_util {

// A small fixed generator: tests must not depend on the library's distributions.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t Bits() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state_ >> 33) * 2u;
  }
  // Roughly normal, standard deviation 1.
  float Next() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(Bits()) / 4294967296.0 - 0.5;
    return static_cast<float>(sum * 1.7320508);
  }
  std::vector<float> Many(int64_t n, float scale = 1.0f) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& f : v) f = Next() * scale;
    return v;
  }

 private:
  uint64_t state_;
};

// Values rounded to `dtype`, kept in its storage form and as float; the storage starts at an odd multiple of the
// element.
struct Stored {
  Stored(const std::vector<float>& values, DType dtype, Shape shape) {
    const size_t size = SizeOf(dtype);
    bytes.resize(values.size() * size + 64 + size);
    auto address = reinterpret_cast<uintptr_t>(bytes.data());
    std::byte* data = bytes.data() + (64 - address % 64) % 64 + size;
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kF32) {
        std::memcpy(data + i * size, &values[i], size);
        exact.push_back(values[i]);
        continue;
      }
      const uint16_t h = dtype == DType::kBF16 ? F32ToBf16(values[i]) : F32ToF16(values[i]);
      std::memcpy(data + i * size, &h, size);
      exact.push_back(dtype == DType::kBF16 ? Bf16ToF32(h) : F16ToF32(h));
    }
    view = {data, dtype, shape};
  }
  std::vector<std::byte> bytes;
  std::vector<float> exact;
  TensorView view;
};

// Names of the compiled instruction sets that this CPU runs.
inline std::vector<std::string> RunnableIsas() {
  std::vector<std::string> names;
  for (const kernels::KernelTable& table : kernels::KernelTables()) {
    if (ChooseKernels(table.isa, DetectCpuFeatures()).has_value()) names.emplace_back(table.isa);
  }
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
