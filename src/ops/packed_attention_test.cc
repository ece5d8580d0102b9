// Tests of packed_attention.h: close to the float attention, and the same bits for any threads and any cut of queries.
#include "ops/packed_attention.h"

#include <cmath>

#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/test_util.h"

namespace minicpm {
namespace {

using testing_util::MakeCompute;
using testing_util::Numbers;
using testing_util::Padded;

TEST(PackedAttention, CloseToFloatAndIndependentOfCuts) {
  const int64_t n = 205, heads = 3, dim = 72;
  Numbers numbers(1);
  Padded q(n, heads * dim, 1), k(n, heads * dim, 2), v(n, heads * dim, 2), exact(n, heads * dim, 0);
  q.Fill(numbers);
  k.Fill(numbers);
  v.Fill(numbers);
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  const auto one = MakeCompute("", 1);
  DenseAttention(*one, q.view, k.view, v.view, heads, heads, dim, scale, exact.view);
  const AlignedBytes memory = AllocateAligned(static_cast<size_t>(PackedKeysValuesBytes(n, heads, dim)));
  const PackedKeysValues packed{memory.get(), n, heads, dim};
  std::vector<float> first;
  for (const std::string& isa : testing_util::RunnableIsas()) {
    for (const int threads : {1, 2, 3}) {
      const auto compute = MakeCompute(isa, threads);
      PackKeysValues(*compute, k.view, v.view, packed);
      for (const int64_t piece : {n, int64_t{64}, int64_t{7}}) {
        Padded out(n, heads * dim, 0);
        for (int64_t row = 0; row < n; row += piece) {
          const int64_t some = std::min(piece, n - row);
          PackedAttention(*compute, q.view.Rows(row, some), packed, scale, out.view.Rows(row, some));
        }
        if (first.empty()) first = out.data;
        EXPECT_EQ(out.data, first) << isa << " " << threads << " " << piece;
      }
    }
  }
  double error = 0, energy = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    error += std::pow(static_cast<double>(first[i]) - exact.data[i], 2);
    energy += std::pow(static_cast<double>(exact.data[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / energy), 0.03);
}

}  // namespace
}  // namespace minicpm
