// Row-wise verbs on vision shapes, judged by the bytes they read and write against the streaming-read limit. A share
// above one means that the data was in a cache.
#include <functional>
#include <string>
#include <vector>

#include "limits.h"
#include "ops/elementwise.h"
#include "ops/norm.h"

namespace minicpm::bench {
namespace {

constexpr int64_t kRows = 1024;
constexpr int64_t kCols = 4304;

struct Data {
  std::vector<float> x = std::vector<float>(kRows * kCols, 0.25f);
  std::vector<float> y = std::vector<float>(kRows * kCols, 0.5f);
  std::vector<float> weight = std::vector<float>(kCols, 1.0f);
  std::vector<float> bias = std::vector<float>(kCols, 0.0f);
};

void Add(const char* name, int matrices_moved, void (*verb)(Data& data)) {
  benchmark::RegisterBenchmark(
      name,
      [=](benchmark::State& state) {
        Data data;
        RunAgainst(state, Limit::kRead, 4.0 * static_cast<double>(kRows * kCols * matrices_moved), [&] { verb(data); });
      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(15);
}

Matrix Of(std::vector<float>& v) { return {v.data(), kRows, kCols}; }

const bool kRegistered = [] {
  Add("layer_norm", 2,
      [](Data& d) { LayerNorm(TheCompute(), Of(d.x), d.weight.data(), d.bias.data(), 1e-6f, Of(d.y)); });
  Add("rms_norm", 2, [](Data& d) { RmsNorm(TheCompute(), Of(d.x), d.weight.data(), 1e-6f, Of(d.y)); });
  Add("silu_mul", 3, [](Data& d) { SiluMul(TheCompute(), Of(d.x), Of(d.y)); });
  Add("add", 3, [](Data& d) { minicpm::Add(TheCompute(), Of(d.x), Of(d.y)); });
  return true;
}();

}  // namespace
}  // namespace minicpm::bench
