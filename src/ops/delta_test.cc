// Tests of delta.h and group_attention.h for every instruction set: against plain double arithmetic, states carried
// over cuts, the two forms of the delta rule, and no allocation once warm.
#include "ops/delta.h"

#include <cmath>

#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/group_attention.h"
#include "ops/test_util.h"

namespace minicpm {
namespace {

using testing_util::ExpectWithin;
using testing_util::MakeCompute;
using testing_util::Numbers;
using testing_util::Padded;
using testing_util::SameBits;

class DeltaTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Compute> compute_ = MakeCompute(GetParam(), 2);
};
INSTANTIATE_TEST_SUITE_P(All, DeltaTest, testing::ValuesIn(testing_util::RunnableIsas()),
                         [](const auto& isa) { return isa.param; });

TEST_P(DeltaTest, ConvolutionKeepsItsState) {
  constexpr int64_t kRows = 9;
  constexpr int64_t kWidth = 21;
  constexpr int64_t kTaps = 4;
  Numbers numbers(4);
  Padded x(kRows, kWidth, 3);
  x.Fill(numbers);
  const std::vector<float> weight = numbers.Many(kTaps * kWidth);
  const std::vector<float> before = numbers.Many((kTaps - 1) * kWidth);
  std::vector<double> expected;
  for (int64_t t = 0; t < kRows; ++t) {
    for (int64_t c = 0; c < kWidth; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < kTaps; ++j) {
        const int64_t i = t + j - (kTaps - 1);
        const float in = i < 0 ? before[static_cast<size_t>((i + kTaps - 1) * kWidth + c)] : x.view.row(i)[c];
        sum += static_cast<double>(in) * static_cast<double>(weight[static_cast<size_t>(j * kWidth + c)]);
      }
      expected.push_back(sum / (1 + std::exp(-sum)));
    }
  }
  for (const int64_t step : {1, 2, 5, 9}) {
    std::vector<float> state = before;
    Padded out(kRows, kWidth, 1);
    for (int64_t t = 0; t < kRows; t += step) {
      const int64_t n = std::min(step, kRows - t);
      CausalConvSilu(*compute_, x.view.Rows(t, n), weight.data(), kTaps, state.data(), out.view.Rows(t, n));
    }
    ExpectWithin(expected, out.view, 2e-6, "cut at " + std::to_string(step));
    EXPECT_TRUE(SameBits(ConstMatrix(state.data(), kTaps - 1, kWidth), x.view.Rows(kRows - kTaps + 1, kTaps - 1)));
  }
}

TEST_P(DeltaTest, Gates) {
  Padded a(3, 5, 2);
  Padded b(3, 5, 2);
  Numbers numbers(5);
  a.Fill(numbers);
  b.Fill(numbers);
  a.view.row(0)[0] = 200.0f;   // softplus is the number itself, the decay 0
  a.view.row(0)[1] = -200.0f;  // softplus is 0, the decay 1
  const std::vector<float> rate = {1.0f, 2.0f, 0.1f, 0.5f, 3.0f};
  const std::vector<float> bias = numbers.Many(5);
  std::vector<double> decay;
  std::vector<double> beta;
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < 5; ++h) {
      const double x = static_cast<double>(a.view.row(t)[h]) + static_cast<double>(bias[static_cast<size_t>(h)]);
      const double softplus = x > 100 ? x : std::log1p(std::exp(x));
      decay.push_back(std::exp(-static_cast<double>(rate[static_cast<size_t>(h)]) * softplus));
      beta.push_back(1 / (1 + std::exp(-static_cast<double>(b.view.row(t)[h]))));
    }
  }
  DeltaGates(*compute_, rate.data(), bias.data(), a.view, b.view);
  ExpectWithin(decay, a.view, 1e-6, "decay");
  ExpectWithin(beta, b.view, 1e-6, "beta");
}

struct DeltaCase {
  DeltaCase(int64_t tokens, uint64_t seed) : numbers(seed), mixed(tokens, 3 * (2 * 20 + 28), 4), gates(tokens, 6, 0) {
    mixed.Fill(numbers);
    for (float& f : mixed.data) f *= 0.2f;
    for (float& f : gates.data) f = 0.7f + 0.3f * static_cast<float>(numbers.Bits() % 1000) / 1000.0f;
    state = numbers.Many(3 * 20 * 28);
  }
  DeltaArgs Args(std::vector<float>& s, Matrix out, int64_t begin, int64_t n) const {
    DeltaArgs a;
    a.mixed = mixed.view.Rows(begin, n);
    a.decay = gates.view.Rows(begin, n).Cols(0, 3);
    a.beta = gates.view.Rows(begin, n).Cols(3, 3);
    a.out = out.Rows(begin, n);
    a.state = s.data();
    a.n_heads = 3;
    a.key_dim = 20;
    a.value_dim = 28;
    return a;
  }
  Numbers numbers;
  Padded mixed, gates;
  std::vector<float> state;
};

TEST_P(DeltaTest, HeadsAndCuts) {
  constexpr int64_t kTokens = 70;
  const DeltaCase c(kTokens, 6);
  std::vector<double> expected(static_cast<size_t>(kTokens * 84));
  for (int64_t h = 0; h < 3; ++h) {
    std::vector<double> s(c.state.begin() + h * 560, c.state.begin() + (h + 1) * 560);
    for (int64_t t = 0; t < kTokens; ++t) {
      const float* q = c.mixed.view.row(t) + h * 20;
      const float* k = q + 60;
      const float* v = c.mixed.view.row(t) + 120 + h * 28;
      for (size_t j = 0; j < 28; ++j) {
        double found = 0;
        for (size_t i = 0; i < 20; ++i) found += (s[i * 28 + j] *= c.gates.view.row(t)[h]) * k[i];
        const double d = c.gates.view.row(t)[3 + h] * (v[j] - found);
        double sum = 0;
        for (size_t i = 0; i < 20; ++i) sum += (s[i * 28 + j] += k[i] * d) * q[i];
        expected[static_cast<size_t>(t * 84 + h * 28) + j] = sum;
      }
    }
  }
  Padded whole(kTokens, 84, 2);
  std::vector<float> state = c.state;
  GatedDelta(*compute_, c.Args(state, whole.view, 0, kTokens));
  ExpectWithin(expected, whole.view, 5e-6, "recurrent");
  Padded cut(kTokens, 84, 2);
  std::vector<float> cut_state = c.state;
  for (int64_t t = 0; t < kTokens; t += 11) {
    GatedDelta(*compute_, c.Args(cut_state, cut.view, t, std::min<int64_t>(11, kTokens - t)));
  }
  EXPECT_TRUE(SameBits(whole.view, cut.view));
  EXPECT_EQ(state, cut_state);
  Padded chunked(kTokens, 84, 2);
  std::vector<float> chunked_state = c.state;
  DeltaArgs args = c.Args(chunked_state, chunked.view, 0, kTokens);
  args.form = DeltaForm::kChunked;
  GatedDelta(*compute_, args);
  ExpectWithin(expected, chunked.view, 1e-5, "chunked");
}

TEST_P(DeltaTest, PairsGatesAndGroups) {
  Numbers numbers(7);
  Padded x(5, 2 * 3 * 6, 1);
  x.Fill(numbers);
  Padded first(5, 18, 2);
  Padded second(5, 18, 0);
  SplitPairs(*compute_, x.view, 6, first.view, second.view);
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t i = 0; i < 18; ++i) {
      EXPECT_EQ(first.view.row(r)[i], x.view.row(r)[i / 6 * 12 + i % 6]);
      EXPECT_EQ(second.view.row(r)[i], x.view.row(r)[i / 6 * 12 + 6 + i % 6]);
    }
  }
  std::vector<double> expected;
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t i = 0; i < 18; ++i) {
      expected.push_back(first.view.row(r)[i] / (1 + std::exp(-static_cast<double>(second.view.row(r)[i]))));
    }
  }
  SigmoidMul(*compute_, second.view, first.view);
  ExpectWithin(expected, first.view, 1e-6, "gate");

  Padded q(12, 36, 1);
  Padded k(12, 36, 0);
  Padded v(12, 36, 0);
  q.Fill(numbers);
  k.Fill(numbers);
  v.Fill(numbers);
  Padded out(12, 36, 0);
  GroupAttention(*compute_, q.view, k.view, v.view, 4, 3, 0.3f, out.view);
  for (int64_t g = 0; g < 3; ++g) {
    Padded dense(4, 36, 0);
    DenseAttention(*compute_, q.view.Rows(4 * g, 4), k.view.Rows(4 * g, 4), v.view.Rows(4 * g, 4), 3, 3, 12, 0.3f,
                   dense.view);
    ExpectWithin(std::vector<double>(dense.data.begin(), dense.data.end()), out.view.Rows(4 * g, 4), 2e-6, "group");
  }
}

// Only the first 2 * cos.cols dimensions of a head turn.
TEST_P(DeltaTest, PartialRotation) {
  Numbers numbers(8);
  Padded x(3, 2 * 24, 1);
  x.Fill(numbers);
  const std::vector<float> before = x.data;
  Padded cos(3, 3, 0);
  Padded sin(3, 3, 0);
  const std::vector<int32_t> positions = {0, 5, 70000};
  FillRopeTable(positions, 1e7, 6, {cos.view, sin.view});
  ApplyRope(*compute_, x.view, 24, {cos.view, sin.view});
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t i = 0; i < 48; ++i) {
      const float* old = before.data() + r * 49 + i;
      const int64_t d = i % 24;
      const double angle = positions[static_cast<size_t>(r)] * std::pow(1e7, -static_cast<double>(d % 3) / 3);
      double wanted = *old;
      if (d < 3) wanted = *old * std::cos(angle) - old[3] * std::sin(angle);
      if (d >= 3 && d < 6) wanted = *old * std::cos(angle) + old[-3] * std::sin(angle);
      EXPECT_NEAR(x.view.row(r)[i], wanted, 1e-5) << r << " " << i;
    }
  }
}

TEST_P(DeltaTest, NothingAllocatesInSteadyState) {
  const DeltaCase c(1, 9);
  Padded out(1, 84, 0);
  Padded mixed(1, c.mixed.view.cols, 0);
  std::vector<float> state = c.state;
  std::vector<float> conv(static_cast<size_t>(3 * mixed.view.cols));
  const std::vector<float> weight(static_cast<size_t>(4 * mixed.view.cols), 0.1f);
  const auto step = [&] {
    CausalConvSilu(*compute_, c.mixed.view, weight.data(), 4, conv.data(), mixed.view);
    GatedDelta(*compute_, c.Args(state, out.view, 0, 1));
    SigmoidMul(*compute_, out.view, out.view);
  };
  step();
  step();
  const int64_t before = testing_util::Allocations();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(testing_util::Allocations(), before);
}

}  // namespace
}  // namespace minicpm
