// Tests of the small verbs: norms, gate, sum, rotation, gather, conversion; and that no operator allocates in steady
// state.
#include <cmath>

#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/convert.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/test_util.h"

namespace minicpm {
namespace {

using testing_util::ExpectWithin;
using testing_util::MakeCompute;
using testing_util::Numbers;
using testing_util::Padded;
using testing_util::SameBits;
using testing_util::Stored;

class RowwiseTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Compute> compute_ = MakeCompute(GetParam(), 2);
};

TEST_P(RowwiseTest, NormsAgreeWithDouble) {
  for (const int64_t cols : {1, 7, 8, 31, 72, 1152, 3585}) {
    Numbers numbers(static_cast<uint64_t>(cols));
    Padded x(23, cols, 2);
    x.Fill(numbers);
    for (float& f : x.data) f = f * 3 + 1.5f;
    const std::vector<float> weight = numbers.Many(cols);
    const std::vector<float> bias = numbers.Many(cols);
    std::vector<double> layer;
    std::vector<double> rms;
    for (int64_t r = 0; r < 23; ++r) {
      double mean = 0;
      double squares = 0;
      for (int64_t i = 0; i < cols; ++i) mean += x.view.row(r)[i];
      mean /= static_cast<double>(cols);
      double var = 0;
      for (int64_t i = 0; i < cols; ++i) {
        var += std::pow(x.view.row(r)[i] - mean, 2);
        squares += std::pow(x.view.row(r)[i], 2);
      }
      const auto n = static_cast<double>(cols);
      for (int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<size_t>(i);
        layer.push_back((x.view.row(r)[i] - mean) / std::sqrt(var / n + 1e-6) * weight[at] + bias[at]);
        rms.push_back(x.view.row(r)[i] / std::sqrt(squares / n + 1e-6) * weight[at]);
      }
    }
    Padded y(23, cols, 1);
    LayerNorm(*compute_, x.view, weight.data(), bias.data(), 1e-6f, y.view);
    ExpectWithin(layer, y.view, 2e-6, "layer " + std::to_string(cols));
    RmsNorm(*compute_, x.view, weight.data(), 1e-6f, y.view);
    ExpectWithin(rms, y.view, 1e-6, "rms " + std::to_string(cols));
    RmsNorm(*compute_, x.view, weight.data(), 1e-6f, x.view);
    EXPECT_TRUE(SameBits(x.view, y.view));
  }
}

TEST_P(RowwiseTest, HeadsAreNormalisedOneByOne) {
  Numbers numbers(2);
  Padded x(5, 4 * 40, 0);
  x.Fill(numbers);
  const std::vector<float> weight = numbers.Many(40);
  Padded expected(5, 4 * 40, 0);
  for (int h = 0; h < 4; ++h) {
    RmsNorm(*compute_, x.view.Cols(h * 40, 40), weight.data(), 1e-6f, expected.view.Cols(h * 40, 40));
  }
  RmsNormHeads(*compute_, x.view, weight.data(), 40, 1e-6f);
  EXPECT_TRUE(SameBits(x.view, expected.view));
}

TEST_P(RowwiseTest, GateAndSum) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 18944}, {1, 5}, {37, 131}, {3, 20001}}) {
    Numbers numbers(static_cast<uint64_t>(cols));
    Padded gate(rows, cols, 1);
    Padded up(rows, cols, 0);
    gate.Fill(numbers);
    up.Fill(numbers);
    for (float& f : gate.data) f *= 8;
    std::vector<double> silu;
    std::vector<double> sum;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < cols; ++i) {
        const double g = gate.view.row(r)[i];
        silu.push_back(g / (1 + std::exp(-g)) * up.view.row(r)[i]);
        sum.push_back(silu.back() + up.view.row(r)[i]);
      }
    }
    SiluMul(*compute_, gate.view, up.view);
    ExpectWithin(silu, gate.view, 1e-6, "silu");
    Add(*compute_, up.view, gate.view);
    ExpectWithin(sum, gate.view, 1e-6, "sum");
  }
}

TEST_P(RowwiseTest, RotationIsExactAtLargePositions) {
  const std::vector<int32_t> positions = {0, 1, 7, 1000, 131071, 1000000};
  const int64_t dim = 128;
  Numbers numbers(4);
  Padded x(6, 3 * dim, 0);
  x.Fill(numbers);
  std::vector<double> expected;
  for (size_t r = 0; r < 6; ++r) {
    for (int64_t i = 0; i < 3 * dim; ++i) {
      const float* head = x.view.row(static_cast<int64_t>(r)) + i / dim * dim;
      const int64_t j = i % dim % (dim / 2);
      const double angle = positions[r] * std::pow(1e6, -2.0 * static_cast<double>(j) / dim);
      const double a = head[j];
      const double b = head[j + dim / 2];
      expected.push_back(i % dim < dim / 2 ? a * std::cos(angle) - b * std::sin(angle)
                                           : b * std::cos(angle) + a * std::sin(angle));
    }
  }
  Padded cos(6, dim / 2, 0);
  Padded sin(6, dim / 2, 0);
  const RopeTable table{cos.view, sin.view};
  FillRopeTable(positions, 1e6, dim, table);
  ApplyRope(*compute_, x.view, dim, table);
  ExpectWithin(expected, x.view, 5e-7, "rope");
}

TEST_P(RowwiseTest, GathersAndConverts) {
  const std::vector<int32_t> ids = {3, 0, 3, 10};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Numbers numbers(11);
    const Stored table(numbers.Many(11 * 37), dtype, Shape{11, 37});
    Padded out(4, 37, 2);
    GatherRows(*compute_, table.view, ids, out.view);
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t i = 0; i < 37; ++i) {
        EXPECT_EQ(out.view.row(r)[i], table.exact[static_cast<size_t>(ids[static_cast<size_t>(r)] * 37 + i)]);
      }
    }
    std::vector<float> all(11 * 37);
    ToFloat(table.view, all.data());
    EXPECT_EQ(all, table.exact);
  }
  Numbers numbers(12);
  const std::vector<float> values = numbers.Many(29);
  std::vector<uint16_t> halves(29);
  ToHalf(*compute_, values, halves.data());
  for (size_t i = 0; i < 29; ++i) EXPECT_EQ(halves[i], F32ToF16(values[i]));
}

// A decoded token runs these verbs hundreds of times; from the second round on nothing may allocate.
TEST_P(RowwiseTest, NothingAllocatesInSteadyState) {
  Numbers numbers(13);
  Padded x(1, 256, 0);
  Padded many(40, 256, 0);
  x.Fill(numbers);
  many.Fill(numbers);
  const Stored w(numbers.Many(256 * 256), DType::kBF16, Shape{256, 256});
  const std::vector<float> weight = numbers.Many(256);
  Padded y(1, 256, 0);
  Padded z(40, 256, 0);
  Padded cos(1, 32, 0);
  Padded sin(1, 32, 0);
  const std::vector<int32_t> one = {5};
  const std::vector<float> kv = numbers.Many(64 * 256);
  const KvBlock block{kv.data(), kv.data()};
  const auto step = [&] {
    GatherRows(*compute_, w.view, one, x.view);
    RmsNorm(*compute_, x.view, weight.data(), 1e-6f, y.view);
    Linear(*compute_, x.view, {w.view, weight.data()}, y.view, Activation::kGeluTanh);
    LinearAdd(*compute_, many.view, {w.view, nullptr}, z.view);
    MatmulPlain(*compute_, many.view, w.view, z.view);
    FillRopeTable(one, 1e6, 64, {cos.view, sin.view});
    ApplyRope(*compute_, y.view, 64, {cos.view, sin.view});
    AttentionArgs a;
    a.q = x.view;
    a.out = y.view;
    a.n_heads = a.n_kv_heads = 4;
    a.head_dim = a.head_stride = 64;
    a.token_stride = 256;
    a.blocks = {&block, 1};
    a.n_keys = 60;
    Attention(*compute_, a);
    DenseAttention(*compute_, many.view, many.view, many.view, 4, 4, 64, 0.1f, z.view);
    SiluMul(*compute_, y.view, x.view);
    Add(*compute_, x.view, y.view);
  };
  step();
  step();
  const int64_t before = testing_util::Allocations();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(testing_util::Allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(All, RowwiseTest, testing::ValuesIn(testing_util::RunnableIsas()),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace minicpm
