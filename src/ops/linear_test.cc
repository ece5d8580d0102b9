// Tests of linear.h: against double arithmetic on awkward shapes, and bit equality of a row over M, threads and
// strides.
#include "ops/linear.h"

#include <cmath>

#include "gtest/gtest.h"
#include "ops/test_util.h"

namespace minicpm {
namespace {

using testing_util::ExpectWithin;
using testing_util::MakeCompute;
using testing_util::Numbers;
using testing_util::Padded;
using testing_util::SameBits;
using testing_util::Stored;

struct Case {
  std::string isa;
  DType dtype;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return info.param.isa + "_" + NameOf(info.param.dtype);
}

class LinearTest : public testing::TestWithParam<Case> {};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::string& isa : testing_util::RunnableIsas()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) cases.push_back({isa, dtype});
  }
  return cases;
}

double Activate(double v, Activation act) {
  switch (act) {
    case Activation::kNone:
      return v;
    case Activation::kGeluTanh:
      return 0.5 * v * (1 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
    case Activation::kGeluErf:
      return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    case Activation::kRelu:
      return std::fmax(v, 0.0);
  }
  return v;
}

std::vector<double> Expected(ConstMatrix x, const std::vector<float>& w, int64_t n, const float* bias, Activation act) {
  std::vector<double> y;
  for (int64_t m = 0; m < x.rows; ++m) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias != nullptr ? bias[j] : 0.0;
      for (int64_t k = 0; k < x.cols; ++k)
        sum += static_cast<double>(x.row(m)[k]) * w[static_cast<size_t>(j * x.cols + k)];
      y.push_back(Activate(sum, act));
    }
  }
  return y;
}

TEST_P(LinearTest, AgreesWithDoubleOnAwkwardShapes) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  const int64_t shapes[][3] = {{1, 1, 1},   {1, 7, 5},     {2, 8, 16},    {3, 72, 17},    {4, 588, 33},  {5, 100, 64},
                               {8, 65, 31}, {9, 9, 16},    {13, 129, 47}, {17, 2049, 20}, {1, 4304, 37}, {40, 300, 130},
                               {25, 1, 18}, {100, 24, 15}, {1, 4096, 9},  {7, 3, 200}};
  const Activation acts[] = {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu};
  int turn = 0;
  for (const auto& [m, k, n] : shapes) {
    Numbers numbers(static_cast<uint64_t>(m * 1000 + k));
    Padded x(m, k, turn % 3);
    x.Fill(numbers);
    const Stored w(numbers.Many(n * k), GetParam().dtype, Shape{n, k});
    const std::vector<float> bias = numbers.Many(n);
    const Activation act = acts[turn++ % 4];
    const float* b = turn % 2 == 0 ? bias.data() : nullptr;
    Padded y(m, n, 5);
    Linear(*compute, x.view, {w.view, b}, y.view, act);
    const std::string what = "M K N " + std::to_string(m) + " " + std::to_string(k) + " " + std::to_string(n);
    ExpectWithin(Expected(x.view, w.exact, n, b, act), y.view, 2e-6, what);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t j = n; j < std::min<int64_t>(n + 5, y.view.stride); ++j) EXPECT_EQ(y.view.row(r)[j], -77.0f) << what;
    }
  }
}

TEST_P(LinearTest, AddsToWhatIsThere) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  for (const int64_t m : {1, 6, 30}) {
    Numbers numbers(3);
    Padded x(m, 150, 0);
    x.Fill(numbers);
    const Stored w(numbers.Many(40 * 150), GetParam().dtype, Shape{40, 150});
    const std::vector<float> bias = numbers.Many(40);
    Padded y(m, 40, 3);
    y.Fill(numbers);
    std::vector<double> expected = Expected(x.view, w.exact, 40, bias.data(), Activation::kNone);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t j = 0; j < 40; ++j) expected[static_cast<size_t>(r * 40 + j)] += y.view.row(r)[j];
    }
    LinearAdd(*compute, x.view, {w.view, bias.data()}, y.view);
    ExpectWithin(expected, y.view, 2e-6, "M " + std::to_string(m));
  }
}

TEST_P(LinearTest, PlainFormMultipliesByColumns) {
  const auto compute = MakeCompute(GetParam().isa, 2);
  for (const int64_t m : {1, 5, 64}) {
    for (const int64_t n : {3, 16, 50}) {
      const int64_t k = 77;
      Numbers numbers(static_cast<uint64_t>(m));
      Padded x(m, k, 1);
      x.Fill(numbers);
      const Stored p(numbers.Many(k * n), GetParam().dtype, Shape{k, n});
      std::vector<float> transposed(p.exact.size());
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < n; ++j)
          transposed[static_cast<size_t>(j * k + i)] = p.exact[static_cast<size_t>(i * n + j)];
      }
      Padded y(m, n, 0);
      MatmulPlain(*compute, x.view, p.view, y.view);
      ExpectWithin(Expected(x.view, transposed, n, nullptr, Activation::kNone), y.view, 2e-6, "plain");
      // One order of summation for both forms.
      const Stored w(transposed, GetParam().dtype, Shape{n, k});
      Padded z(m, n, 0);
      Linear(*compute, x.view, {w.view, nullptr}, z.view);
      EXPECT_TRUE(SameBits(y.view, z.view)) << m << " " << n;
    }
  }
}

// The contract that everything above relies on: greedy text does not depend on batch, chunking or threads.
TEST_P(LinearTest, RowsDependOnNothingElse) {
  const int64_t m_all = 70;
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{72, 50}, {588, 33}, {2100, 40}, {4304, 19}}) {
    Numbers numbers(static_cast<uint64_t>(k));
    Padded x(m_all, k, 4);
    x.Fill(numbers);
    const Stored w(numbers.Many(n * k), GetParam().dtype, Shape{n, k});
    const std::vector<float> bias = numbers.Many(n);
    const LinearWeight weight{w.view, bias.data()};
    Padded whole(m_all, n, 0);
    Linear(*MakeCompute(GetParam().isa, 1), x.view, weight, whole.view, Activation::kGeluTanh);
    for (const int threads : {1, 2, 3}) {
      const auto compute = MakeCompute(GetParam().isa, threads);
      for (const int64_t step : {1, 2, 3, 4, 5, 8, 9, 13, 64, 70}) {
        Padded y(m_all, n, 3);
        for (int64_t first = 0; first < m_all; first += step) {
          const int64_t rows = std::min(step, m_all - first);
          Linear(*compute, x.view.Rows(first, rows), weight, y.view.Rows(first, rows), Activation::kGeluTanh);
        }
        EXPECT_TRUE(SameBits(whole.view, y.view)) << "K " << k << " threads " << threads << " step " << step;
      }
    }
  }
}

TEST_P(LinearTest, ManyRowsTakeSeveralChunks) {
  const int64_t m = 400;
  const int64_t k = 12288;  // so long that x is laid out in pieces
  const int64_t n = 18;
  Numbers numbers(9);
  Padded x(m, k, 0);
  x.Fill(numbers);
  const Stored w(numbers.Many(n * k), GetParam().dtype, Shape{n, k});
  const auto compute = MakeCompute(GetParam().isa, 2);
  Padded whole(m, n, 0);
  Padded single(m, n, 0);
  Linear(*compute, x.view, {w.view, nullptr}, whole.view);
  for (int64_t r = 0; r < m; r += 37) {
    Linear(*compute, x.view.Rows(r, 1), {w.view, nullptr}, single.view.Rows(r, 1));
    EXPECT_TRUE(SameBits(whole.view.Rows(r, 1), single.view.Rows(r, 1))) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearTest, testing::ValuesIn(AllCases()), CaseName);

TEST(Compute, NamesWhatItDoesNotKnow) {
  ComputeOptions options;
  options.isa = "sse9";
  const auto bad = Compute::Create(options);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(bad.error().message.find("scalar"), std::string::npos);
  EXPECT_NE(bad.error().message.find("sse9"), std::string::npos);
  options.isa = "";
  options.n_threads = -1;
  EXPECT_FALSE(Compute::Create(options).has_value());
}

TEST(Compute, RunsWhatTheTestsRun) {
  std::vector<std::string> chosen;
  for (const kernels::KernelTable& table : kernels::KernelTables()) {
    if (ChooseKernels(table.isa, DetectCpuFeatures()).has_value()) chosen.emplace_back(table.isa);
  }
  EXPECT_EQ(chosen, testing_util::RunnableIsas());
  const auto best = ChooseKernels("", DetectCpuFeatures());
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ((*best)->isa, chosen.front());
}

TEST(Compute, RefusesWhatTheCpuLacks) {
  const CpuFeatures nothing;
  const auto best = ChooseKernels("", nothing);
  ASSERT_TRUE(best.has_value());
  EXPECT_STREQ((*best)->isa, "scalar");
  for (const kernels::KernelTable& table : kernels::KernelTables()) {
    if (std::string_view(table.isa) == "scalar") continue;
    const auto refused = ChooseKernels(table.isa, nothing);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace minicpm
