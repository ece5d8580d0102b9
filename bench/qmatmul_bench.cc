// Products with packed weights on the models' shapes, quantising the activations included: many rows against the limit
// of 8-bit or 4-bit products, few rows against the streaming-read limit.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "limits.h"
#include "ops/linear.h"
#include "quant/packed.h"

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

// Copies of a matrix in a block of their own, with large pages where there are any. Every panel is the same: speed does
// not depend on the values.
struct Weights {
  Weights(DType dtype, int64_t n, int64_t k, int64_t copies) : n_(n), k_(k), dtype_(dtype) {
    const int64_t panel_bytes = quant::PanelBytes(dtype, k);
    const int64_t panels = copies * (n / quant::kPanelRows);
    auto allocated = PageBlock::Allocate(static_cast<size_t>(panels * panel_bytes));
    if (!allocated.has_value()) std::abort();
    block_ = std::move(allocated).value();
    std::byte* const data = block_.bytes().data();
    quant::EncodeStats stats;
    const std::vector<float> w = NoiseFloats(quant::kPanelRows * k);
    const Status encoded =
        quant::EncodePanel(dtype, w.data(), k, quant::kPanelRows, k, quant::Search::kNearest, data, stats);
    if (!encoded.has_value()) std::abort();
    for (int64_t p = 1; p < panels; ++p) std::memcpy(data + p * panel_bytes, data, static_cast<size_t>(panel_bytes));
  }
  int64_t bytes() const { return quant::PackedBytes(dtype_, n_, k_); }
  LinearWeight operator[](int64_t copy) const {
    return {{block_.bytes().data() + copy * bytes(), dtype_, Shape{n_, k_}}, nullptr};
  }

 private:
  int64_t n_, k_;
  DType dtype_;
  PageBlock block_;
};

// y = x W^T with many rows, judged by arithmetic. The limit of a format is that of its own mix of instructions.
void Many(benchmark::State& state, DType dtype, int64_t m, int64_t k, int64_t n) {
  const std::vector<float> x = NoiseFloats(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  const Weights w(dtype, n, k, 1);
  const Limit limit = dtype == DType::kInt8Packed ? Limit::kInt8 : Limit::kInt4;
  RunAgainst(state, limit, 2.0 * static_cast<double>(m * n * k), [&] {
    Linear(TheCompute(), {x.data(), m, k}, w[0], {y.data(), m, n});
    benchmark::DoNotOptimize(y.data());
  });
}

// y = x W^T with few rows, judged by the bytes of W. A call runs over about 512 MiB of copies: as in a model, no matrix
// is in the cache when its turn comes.
void Few(benchmark::State& state, DType dtype, int64_t m, int64_t k, int64_t n) {
  const int64_t bytes = quant::PackedBytes(dtype, n, k);
  const int64_t copies = std::max<int64_t>(2, (int64_t{512} << 20) / bytes);
  const std::vector<float> x = NoiseFloats(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  const Weights w(dtype, n, k, copies);
  RunAgainst(state, Limit::kRead, static_cast<double>(bytes * copies), [&] {
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

struct Size {
  int64_t k, n;
};

const bool kRegistered = [] {
  // SigLIP, then the 8B decoder.
  for (const Size s : {Size{1152, 1152}, Size{1152, 4304}, Size{4304, 1152}}) {
    for (const int64_t m : {256, 1024}) Add("many", Many, DType::kInt8Packed, m, s.k, s.n);
  }
  for (const DType dtype : {DType::kInt4Packed, DType::kInt8Packed}) {
    for (const Size s : {Size{4096, 4096}, Size{4096, 12288}, Size{12288, 4096}}) {
      for (const int64_t m : {16, 128, 512, 1024}) Add("many", Many, dtype, m, s.k, s.n);
    }
    for (const Size s : {Size{4096, 4096}, Size{4096, 12288}, Size{12288, 4096}}) {
      for (const int64_t m : {1, 2, 4, 8, 16}) Add("few", Few, dtype, m, s.k, s.n);
    }
  }
  return true;
}();

}  // namespace
}  // namespace minicpm::bench
