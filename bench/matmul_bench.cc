// Matrix products on the models' shapes: many rows against the float32 limit, few rows against the streaming-read
// limit.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "limits.h"
#include "ops/linear.h"

namespace minicpm::bench {
namespace {

// Cheap noise in [-0.5, 0.5), the same for every run.
float Noise(uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ull;
  return static_cast<float>(static_cast<uint32_t>(i >> 32)) / 4294967296.0f - 0.5f;
}

std::vector<float> NoiseFloats(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i)] = Noise(static_cast<uint64_t>(i));
  return v;
}

// Weights in a block of their own, with large pages where there are any.
struct Weights {
  Weights(DType dtype, int64_t n, int64_t k, int64_t copies) : n_(n), k_(k), dtype_(dtype) {
    const auto bytes = static_cast<size_t>(n * k) * SizeOf(dtype);
    auto allocated = PageBlock::Allocate(bytes * static_cast<size_t>(copies));
    if (!allocated.has_value()) std::abort();
    block_ = std::move(allocated).value();
    std::byte* const data = block_.bytes().data();
    for (int64_t i = 0; i < n * k; ++i) {
      const float f = Noise(static_cast<uint64_t>(i));
      const uint16_t h = dtype == DType::kBF16 ? F32ToBf16(f) : F32ToF16(f);
      std::memcpy(data + static_cast<size_t>(i) * SizeOf(dtype),
                  dtype == DType::kF32 ? static_cast<const void*>(&f) : &h, SizeOf(dtype));
    }
    for (int64_t c = 1; c < copies; ++c) std::memcpy(data + static_cast<size_t>(c) * bytes, data, bytes);
  }
  LinearWeight operator[](int64_t copy) const {
    const size_t bytes = static_cast<size_t>(n_ * k_) * SizeOf(dtype_);
    return {{block_.bytes().data() + static_cast<size_t>(copy) * bytes, dtype_, Shape{n_, k_}}, nullptr};
  }

 private:
  int64_t n_, k_;
  DType dtype_;
  PageBlock block_;
};

// y = x W^T with M rows, judged by arithmetic.
void Gemm(benchmark::State& state, DType dtype, int64_t m, int64_t k, int64_t n) {
  const std::vector<float> x = NoiseFloats(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  const Weights w(dtype, n, k, 1);
  RunAgainst(state, Limit::kF32, 2.0 * static_cast<double>(m * n * k), [&] {
    Linear(TheCompute(), {x.data(), m, k}, w[0], {y.data(), m, n});
    benchmark::DoNotOptimize(y.data());
  });
}

// y = x W^T with one or a few rows, judged by the bytes of W. A call runs over about 512 MiB of copies: as in a model,
// no matrix is in the cache when its turn comes.
void Gemv(benchmark::State& state, DType dtype, int64_t m, int64_t k, int64_t n) {
  const double bytes = static_cast<double>(n * k) * static_cast<double>(SizeOf(dtype));
  const int64_t copies = std::max<int64_t>(2, static_cast<int64_t>(512.0 * 1048576.0 / bytes));
  const std::vector<float> x = NoiseFloats(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  const Weights w(dtype, n, k, copies);
  RunAgainst(state, Limit::kRead, bytes * static_cast<double>(copies), [&] {
    for (int64_t c = 0; c < copies; ++c) Linear(TheCompute(), {x.data(), m, k}, w[c], {y.data(), m, n});
    benchmark::DoNotOptimize(y.data());
  });
}

using Product = void (*)(benchmark::State&, DType, int64_t, int64_t, int64_t);

void Add(const char* verb, Product product, DType dtype, int64_t m, int64_t k, int64_t n) {
  const std::string name = std::string(verb) + "/" + NameOf(dtype) + "/M:" + std::to_string(m) +
                           "/K:" + std::to_string(k) + "/N:" + std::to_string(n);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { product(state, dtype, m, k, n); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(15);
}

const bool kRegistered = [] {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Add("gemm", Gemm, dtype, 1024, 1152, 1152);
    Add("gemm", Gemm, dtype, 1024, 1152, 4304);
    Add("gemm", Gemm, dtype, 1024, 4304, 1152);
  }
  Add("gemm", Gemm, DType::kF32, 1024, 588, 1152);
  for (const int64_t m : {32, 64, 128, 512}) Add("gemm", Gemm, DType::kBF16, m, 4096, 4096);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    Add("gemv", Gemv, dtype, 1, 4096, 12288);
    Add("gemv", Gemv, dtype, 1, 12288, 4096);
  }
  Add("gemv", Gemv, DType::kBF16, 1, 4096, 1024);
  for (const int64_t m : {2, 4, 8, 16}) Add("gemv", Gemv, DType::kBF16, m, 4096, 12288);
  return true;
}();

}  // namespace
}  // namespace minicpm::bench
