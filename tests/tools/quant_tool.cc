// quant_tool FILE.safetensors: what INT8 and INT4 do to the products of real weights and real inputs, as written by
// reference/dump_linears.py. Prints a table; not part of the product.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ops/linear.h"
#include "quant/packed.h"
#include "store/safetensors.h"
#include "tensor/arena.h"

namespace minicpm {
namespace {

struct Quality {
  double cosine = 0;
  double weight_error = 0;
};

Quality Measure(Compute& compute, DType dtype, quant::Search search, const TensorView& w, const TensorView& x,
                const std::vector<double>& expected) {
  const int64_t n = w.shape[0], k = w.shape[1], m = x.shape[0];
  const AlignedBytes bytes = AllocateAligned(static_cast<size_t>(quant::PackedBytes(dtype, n, k)));
  quant::EncodeStats stats;
  for (int64_t row = 0; row < n; row += quant::kPanelRows) {
    const Status s =
        quant::EncodePanel(dtype, w.as<float>() + row * k, k, std::min(quant::kPanelRows, n - row), k, search,
                           bytes.get() + row / quant::kPanelRows * quant::PanelBytes(dtype, k), stats);
    if (!s.has_value()) std::fprintf(stderr, "%s\n", s.error().message.c_str());
  }
  std::vector<float> y(static_cast<size_t>(m * n));
  Linear(compute, {x.as<float>(), m, k}, {{bytes.get(), dtype, w.shape}, nullptr}, {y.data(), m, n});
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    ab += expected[i] * static_cast<double>(y[i]);
    aa += expected[i] * expected[i];
    bb += static_cast<double>(y[i]) * static_cast<double>(y[i]);
  }
  return {ab / std::sqrt(aa * bb), std::sqrt(stats.error / stats.energy)};
}

int Run(const char* path) {
  auto file = SafetensorsFile::Open(path);
  auto compute = Compute::Create({});
  if (!file.has_value() || !compute.has_value()) {
    std::fprintf(stderr, "%s\n", (file.has_value() ? compute.error() : file.error()).message.c_str());
    return 1;
  }
  std::printf("%-40s %11s  INT8: cosine  weights  INT4: cosine  weights  to nearest   lower by\n", "product", "N x K");
  double worst8 = 1, worst4 = 1, least_gain = 1;
  for (const auto& entry : file->entries()) {
    if (!entry.name.ends_with(".weight")) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - 7);
    const auto input = std::find_if(file->entries().begin(), file->entries().end(),
                                    [&](const auto& e) { return e.name == name + ".input"; });
    if (input == file->entries().end() || entry.view.dtype != DType::kF32 || input->view.dtype != DType::kF32) continue;
    const TensorView &w = entry.view, &x = input->view;
    std::vector<double> expected;
    for (int64_t i = 0; i < x.shape[0]; ++i) {
      for (int64_t j = 0; j < w.shape[0]; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < w.shape[1]; ++c) {
          sum += static_cast<double>(x.as<float>()[i * w.shape[1] + c]) *
                 static_cast<double>(w.as<float>()[j * w.shape[1] + c]);
        }
        expected.push_back(sum);
      }
    }
    const Quality q8 = Measure(**compute, DType::kInt8Packed, quant::Search::kLeastSquares, w, x, expected);
    const Quality q4 = Measure(**compute, DType::kInt4Packed, quant::Search::kLeastSquares, w, x, expected);
    const Quality nearest = Measure(**compute, DType::kInt4Packed, quant::Search::kNearest, w, x, expected);
    const double gain = 1 - q4.weight_error / nearest.weight_error;
    worst8 = std::min(worst8, q8.cosine);
    worst4 = std::min(worst4, q4.cosine);
    least_gain = std::min(least_gain, gain);
    std::printf("%-40s %5lld x %-4lld %12.5f %8.4f %13.5f %8.4f %11.4f %8.1f %%\n", name.c_str(),
                static_cast<long long>(w.shape[0]), static_cast<long long>(w.shape[1]), q8.cosine, q8.weight_error,
                q4.cosine, q4.weight_error, nearest.weight_error, 100 * gain);
  }
  std::printf("worst cosine: INT8 %.5f, INT4 %.5f; least gain over rounding to nearest %.1f %%\n", worst8, worst4,
              100 * least_gain);
  return 0;
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quant_tool FILE.safetensors\n");
    return 2;
  }
  return minicpm::Run(argv[1]);
}
