// Tests of the delta family for every table: against the scalar recurrence on odd sizes in guarded memory, the chunked
// form against the recurrence, and bit equality however a run is cut.
#include "kernels/delta/delta.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/test_util.h"

namespace minicpm::kernels {
namespace {

using testing_util::GuardedFloats;
using testing_util::Numbers;
using testing_util::ScalarTable;

class DeltaKernelTest : public testing_util::EveryTable {};
INSTANTIATE_TEST_SUITE_P(All, DeltaKernelTest, testing::ValuesIn(testing_util::RunnableTables()),
                         testing_util::TableName);

// q, k, v of a head lie in rows of a wider matrix, as they do behind the convolution.
struct Head {
  Head(int64_t n_tokens, int64_t key, int64_t value)
      : n(n_tokens), dk(key), dv(value), stride(2 * key + value), numbers(static_cast<uint64_t>(n_tokens * 131 + key)) {
    std::vector<float> rows = numbers.Many(n * stride);
    for (int64_t t = 0; t < n; ++t) {
      for (const int64_t begin : {int64_t{0}, dk}) {
        double squares = 1e-6;
        for (int64_t i = 0; i < dk; ++i) squares += std::pow(rows[static_cast<size_t>(t * stride + begin + i)], 2.0);
        for (int64_t i = 0; i < dk; ++i) {
          rows[static_cast<size_t>(t * stride + begin + i)] /= static_cast<float>(std::sqrt(squares));
        }
      }
    }
    std::vector<float> gate(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = static_cast<float>(numbers.Bits() % 1000) / 1000.0f;
    for (size_t i = 1; i < gate.size(); i += 2) gate[i] = 1.0f - 0.1f * gate[i] * gate[i];  // decay
    if (n > 3) gate[5] = 0.0f;  // everything forgotten at once
    input = std::make_unique<GuardedFloats>(rows);
    gates = std::make_unique<GuardedFloats>(gate);
    start = numbers.Many(dk * dv, 0.3f);
  }
  DeltaRun Run(float* state, float* out) const {
    DeltaRun r;
    r.q = input->data();
    r.k = r.q + dk;
    r.v = r.k + dk;
    r.stride = stride;
    r.beta = gates->data();
    r.decay = gates->data() + 1;
    r.gate_stride = 2;
    r.out = out;
    r.out_stride = dv;
    r.state = state;
    r.n = n;
    r.dk = dk;
    r.dv = dv;
    return r;
  }
  int64_t n, dk, dv, stride;
  Numbers numbers;
  std::unique_ptr<GuardedFloats> input, gates;
  std::vector<float> start;
};

struct Result {
  explicit Result(const Head& h)
      : out(std::vector<float>(static_cast<size_t>(h.n * h.dv), -1.0f)), state(h.start), head(h) {}
  DeltaRun Run() const { return head.Run(state.data(), out.data()); }
  GuardedFloats out, state;
  const Head& head;
};

double Distance(const float* a, const float* b, int64_t n) {
  double worst = 0;
  double largest = 1e-30;
  for (int64_t i = 0; i < n; ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    worst = std::isnan(difference) ? HUGE_VAL : std::max(worst, difference);
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

void ExpectClose(const Result& a, const Result& b, double limit) {
  EXPECT_LT(Distance(a.out.data(), b.out.data(), a.head.n * a.head.dv), limit)
      << "out " << a.head.n << " " << a.head.dk;
  EXPECT_LT(Distance(a.state.data(), b.state.data(), a.head.dk * a.head.dv), limit) << "state " << a.head.n;
}

std::vector<Head> Heads() {
  std::vector<Head> heads;
  for (const int64_t n : {1, 2, 5, 63, 64, 65, 130}) heads.emplace_back(n, 20, 28);
  heads.emplace_back(70, 128, 128);
  heads.emplace_back(9, 7, 1);
  heads.emplace_back(33, 1, 17);
  heads.emplace_back(12, 9, 8);
  return heads;
}

TEST_P(DeltaKernelTest, RecurrentIsTheScalarOne) {
  for (const Head& head : Heads()) {
    const Result truth(head);
    const Result result(head);
    ScalarTable().delta->recurrent(truth.Run());
    table().delta->recurrent(result.Run());
    ExpectClose(result, truth, 3e-6);
  }
}

TEST_P(DeltaKernelTest, ChunkedAgreesWithRecurrent) {
  for (const Head& head : Heads()) {
    const Result truth(head);
    const Result result(head);
    const GuardedFloats scratch(std::vector<float>(static_cast<size_t>(DeltaChunkFloats(head.dv))));
    ScalarTable().delta->recurrent(truth.Run());
    table().delta->chunked(result.Run(), scratch.data());
    ExpectClose(result, truth, 1e-5);
  }
}

TEST_P(DeltaKernelTest, CuttingChangesNoBit) {
  const Head head(150, 20, 28);
  const Result whole(head);
  table().delta->recurrent(whole.Run());
  for (const int64_t step : {1, 7, 64, 100}) {
    const Result cut(head);
    for (int64_t t = 0; t < head.n; t += step) {
      DeltaRun r = cut.Run();
      r.n = std::min(step, head.n - t);
      r.q += t * r.stride;
      r.k += t * r.stride;
      r.v += t * r.stride;
      r.decay += t * r.gate_stride;
      r.beta += t * r.gate_stride;
      r.out += t * r.out_stride;
      table().delta->recurrent(r);
    }
    EXPECT_EQ(std::memcmp(cut.out.data(), whole.out.data(), static_cast<size_t>(head.n * head.dv) * 4), 0) << step;
    EXPECT_EQ(std::memcmp(cut.state.data(), whole.state.data(), static_cast<size_t>(head.dk * head.dv) * 4), 0) << step;
  }
}

TEST_P(DeltaKernelTest, ConvSilu) {
  for (int64_t n = 1; n < 40; ++n) {
    for (const int64_t taps : {1, 2, 4}) {
      Numbers numbers(static_cast<uint64_t>(n));
      const GuardedFloats weight(numbers.Many(taps * n));
      std::vector<std::unique_ptr<GuardedFloats>> rows;
      const float* pointers[4] = {};
      for (int64_t j = 0; j < taps; ++j) {
        rows.push_back(std::make_unique<GuardedFloats>(numbers.Many(n, 3.0f)));
        pointers[j] = rows.back()->data();
      }
      const GuardedFloats truth(std::vector<float>(static_cast<size_t>(n)));
      const GuardedFloats y(std::vector<float>(static_cast<size_t>(n)));
      ScalarTable().delta->conv_silu(pointers, weight.data(), taps, n, truth.data());
      table().delta->conv_silu(pointers, weight.data(), taps, n, y.data());
      EXPECT_LT(Distance(y.data(), truth.data(), n), 2e-6) << n << " " << taps;
    }
  }
}

}  // namespace
}  // namespace minicpm::kernels
