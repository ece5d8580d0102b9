// Tests of linear.h on packed weights: against double arithmetic on the decoded weights, and bit equality of a row over
// M, threads, instruction sets and the grouping of jobs.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/test_util.h"
#include "quant/packed.h"

namespace minicpm {
namespace {

using testing_util::MakeCompute;
using testing_util::Numbers;
using testing_util::Padded;

// A packed weight [n, k] and its decoded values. The bytes end where the memory ends.
struct PackedWeight {
  PackedWeight(DType dtype, int64_t n, int64_t k, uint64_t seed)
      : memory(static_cast<size_t>(quant::PackedBytes(dtype, n, k))), decoded(static_cast<size_t>(n * k)) {
    Numbers numbers(seed);
    const std::vector<float> w = numbers.Many(n * k, 0.1f);
    quant::EncodeStats stats;
    for (int64_t row = 0; row < n; row += quant::kPanelRows) {
      EXPECT_TRUE(quant::EncodePanel(dtype, w.data() + row * k, k, std::min(quant::kPanelRows, n - row), k,
                                     quant::Search::kNearest,
                                     memory.data() + row / quant::kPanelRows * quant::PanelBytes(dtype, k), stats)
                      .has_value());
    }
    view = {memory.data(), dtype, Shape{n, k}};
    for (int64_t row = 0; row < n; ++row) quant::DecodeRow(view, row, decoded.data() + row * k);
  }
  LinearWeight weight(const float* bias = nullptr) const { return {view, bias}; }
  testing_util::Guarded memory;
  std::vector<float> decoded;
  TensorView view;
};

double Cosine(const std::vector<double>& a, ConstMatrix b) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t r = 0; r < b.rows; ++r) {
    for (int64_t c = 0; c < b.cols; ++c) {
      const double x = a[static_cast<size_t>(r * b.cols + c)];
      const double y = b.row(r)[c];
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
  }
  return ab / std::sqrt(aa * bb + 1e-300);
}

struct Case {
  std::string isa;
  DType dtype;
};
std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return info.param.isa + "_" + NameOf(info.param.dtype);
}
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::string& isa : testing_util::RunnableIsas()) {
    for (const DType dtype : {DType::kInt8Packed, DType::kInt4Packed}) cases.push_back({isa, dtype});
  }
  return cases;
}
class PackedLinearTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, PackedLinearTest, testing::ValuesIn(AllCases()), CaseName);

TEST_P(PackedLinearTest, AgreesWithDoubleOnAwkwardShapes) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  const int64_t shapes[][3] = {{1, 1, 1},   {1, 7, 5},     {2, 16, 16},    {3, 72, 17},    {4, 588, 33},  {5, 100, 64},
                               {8, 65, 31}, {13, 129, 47}, {17, 2049, 20}, {1, 1100, 600}, {40, 300, 130}};
  int turn = 0;
  for (const auto& [m, k, n] : shapes) {
    Numbers numbers(static_cast<uint64_t>(m * 1000 + k));
    Padded x(m, k, turn++ % 3);
    x.Fill(numbers);
    const PackedWeight w(GetParam().dtype, n, k, 5);
    const std::vector<float> bias = numbers.Many(n);
    const float* b = turn % 2 == 0 ? bias.data() : nullptr;
    std::vector<double> expected;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = b != nullptr ? b[j] : 0.0;
        for (int64_t c = 0; c < k; ++c) {
          sum += static_cast<double>(x.view.row(i)[c]) * w.decoded[static_cast<size_t>(j * k + c)];
        }
        expected.push_back(sum);
      }
    }
    Padded y(m, n, 2);
    Linear(*compute, x.view, w.weight(b), y.view);
    // 8-bit activations: about 0.6 % of noise, a cosine of 0.99998.
    EXPECT_GT(Cosine(expected, y.view), 0.9995) << m << " " << k << " " << n;
    for (int64_t i = 0; i < m; ++i) EXPECT_EQ(y.view.row(i)[n], -77.0f);
  }
}

TEST_P(PackedLinearTest, ARowsBitsAreItsOwn) {
  const int64_t k = 1200, n = 100, m = 37;
  Numbers numbers(3);
  Padded x(m, k, 1);
  x.Fill(numbers);
  const PackedWeight w(GetParam().dtype, n, k, 9);
  const auto scalar = MakeCompute("scalar", 1);
  Padded truth(m, n, 0);
  Linear(*scalar, x.view, w.weight(), truth.view);
  for (const int threads : {1, 2, 3}) {
    const auto compute = MakeCompute(GetParam().isa, threads);
    for (const int64_t rows :
         {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{5}, int64_t{7}, int64_t{16}, m}) {
      for (int64_t first = 0; first < m; first += rows) {
        const int64_t some = std::min(rows, m - first);
        Padded y(some, n, 0);
        Linear(*compute, x.view.Rows(first, some), w.weight(), y.view);
        for (int64_t i = 0; i < some; ++i) {
          for (int64_t j = 0; j < n; ++j) ASSERT_EQ(y.view.row(i)[j], truth.view.row(first + i)[j]) << rows << " " << j;
        }
      }
    }
  }
}

TEST_P(PackedLinearTest, GroupedJobsEqualSingleOnes) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  const int64_t k = 200;
  const DType other = GetParam().dtype == DType::kInt4Packed ? DType::kInt8Packed : DType::kInt4Packed;
  for (const int64_t m : {1, 6, 40}) {
    Numbers numbers(static_cast<uint64_t>(m));
    Padded x(m, k, 0);
    x.Fill(numbers);
    const std::vector<float> gain = numbers.Many(k);
    const std::vector<float> shift = numbers.Many(k);
    const std::vector<float> bias = numbers.Many(70);
    const std::vector<float> plain = numbers.Many(20 * k);
    const PackedWeight a(GetParam().dtype, 70, k, 1), b(GetParam().dtype, 16, k, 2), c(other, 33, k, 3);
    const LinearWeight f = {{plain.data(), DType::kF32, Shape{20, k}}, nullptr};
    Padded ya(m, 70, 0), yb(m, 16, 0), yc(m, 33, 0), yf(m, 20, 0);
    const LinearJob jobs[] = {{a.weight(bias.data()), ya.view, Activation::kGeluTanh},
                              {f, yf.view},
                              {c.weight(), yc.view},
                              {b.weight(), yb.view, Activation::kNone, true}};
    NormLinears(*compute, x.view, {gain.data(), shift.data(), 1e-6f}, jobs);

    Padded normed(m, k, 0), za(m, 70, 0), zb(m, 16, 0), zc(m, 33, 0), zf(m, 20, 0);
    LayerNorm(*compute, x.view, gain.data(), shift.data(), 1e-6f, normed.view);
    Linear(*compute, normed.view, a.weight(bias.data()), za.view, Activation::kGeluTanh);
    LinearAdd(*compute, normed.view, b.weight(), zb.view);
    Linear(*compute, normed.view, c.weight(), zc.view);
    Linear(*compute, normed.view, f, zf.view);
    EXPECT_EQ(ya.data, za.data);
    EXPECT_EQ(yb.data, zb.data);
    EXPECT_EQ(yc.data, zc.data);
    EXPECT_EQ(yf.data, zf.data);
  }
}

TEST_P(PackedLinearTest, SwiGluEqualsItsParts) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  const int64_t k = 130, n = 90;
  const PackedWeight gate(GetParam().dtype, n, k, 1), up(GetParam().dtype, n, k, 2);
  const std::vector<float> plain = Numbers(7).Many(n * k);
  const LinearWeight float_up = {{plain.data(), DType::kF32, Shape{n, k}}, nullptr};
  for (const int64_t m : {1, 5, 33}) {
    Numbers numbers(static_cast<uint64_t>(m));
    Padded x(m, k, 0);
    x.Fill(numbers);
    const std::vector<float> gain = numbers.Many(k);
    for (const LinearWeight& other : {up.weight(), float_up}) {
      Padded inner(m, n, 0), normed(m, k, 0), a(m, n, 0), b(m, n, 0);
      NormSwiGlu(*compute, x.view, {gain.data(), nullptr, 1e-6f}, gate.weight(), other, inner.view);
      RmsNorm(*compute, x.view, gain.data(), 1e-6f, normed.view);
      Linear(*compute, normed.view, gate.weight(), a.view);
      Linear(*compute, normed.view, other, b.view);
      SiluMul(*compute, a.view, b.view);
      EXPECT_EQ(inner.data, a.data);
    }
  }
}

TEST_P(PackedLinearTest, RowsOfAWeightAndOfATable) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  const int64_t k = 96;
  const PackedWeight w(GetParam().dtype, 48, k, 4);
  Numbers numbers(8);
  Padded x(3, k, 0), whole(3, 48, 0), part(3, 20, 0);
  x.Fill(numbers);
  Linear(*compute, x.view, w.weight(), whole.view);
  Linear(*compute, x.view, {quant::PackedRows(w.view, 16, 20), nullptr}, part.view);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 20; ++j) EXPECT_EQ(part.view.row(i)[j], whole.view.row(i)[16 + j]);
  }
  Padded rows(2, k, 0);
  const int32_t ids[] = {47, 5};
  GatherRows(*compute, w.view, ids, rows.view);
  for (int64_t c = 0; c < k; ++c) {
    EXPECT_EQ(rows.view.row(0)[c], w.decoded[static_cast<size_t>(47 * k + c)]);
    EXPECT_EQ(rows.view.row(1)[c], w.decoded[static_cast<size_t>(5 * k + c)]);
  }
}

// Outputs beside float products of the unquantised weights: what the whole chain of a Linear costs. 10 of 1152 channels
// are 20 times as large, as some channels of trained transformers are.
TEST(PackedLinear, OutlierChannelsKeepTheCosine) {
  const int64_t k = 1152, n = 256, m = 48;
  Numbers numbers(77);
  Padded x(m, k, 0);
  x.Fill(numbers);
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 57; c < k; c += 115) x.view.row(r)[c] *= 20;
  }
  std::vector<float> w = numbers.Many(n * k, 0.02f);
  for (const bool heavy_tails : {false, true}) {
    if (heavy_tails) {
      for (float& f : w) f = f * std::fabs(f) * 40;
    }
    std::vector<double> expected;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < k; ++c)
          sum += static_cast<double>(x.view.row(i)[c]) * w[static_cast<size_t>(j * k + c)];
        expected.push_back(sum);
      }
    }
    for (const DType dtype : {DType::kInt8Packed, DType::kInt4Packed}) {
      const AlignedBytes bytes = AllocateAligned(static_cast<size_t>(quant::PackedBytes(dtype, n, k)));
      quant::EncodeStats stats;
      for (int64_t row = 0; row < n; row += quant::kPanelRows) {
        ASSERT_TRUE(quant::EncodePanel(dtype, w.data() + row * k, k, quant::kPanelRows, k, quant::Search::kLeastSquares,
                                       bytes.get() + row / quant::kPanelRows * quant::PanelBytes(dtype, k), stats)
                        .has_value());
      }
      const auto compute = MakeCompute("", 1);
      Padded y(m, n, 0);
      Linear(*compute, x.view, {{bytes.get(), dtype, Shape{n, k}}, nullptr}, y.view);
      const double cosine = Cosine(expected, y.view);
      std::printf("%s, %s weights, outlier channels: cosine %.5f\n", NameOf(dtype),
                  heavy_tails ? "heavy-tailed" : "normal", cosine);
      EXPECT_GT(cosine, dtype == DType::kInt8Packed ? 0.999 : 0.99);
    }
  }
}

}  // namespace
}  // namespace minicpm
