// Tests of qattention.h: the scalar table against double arithmetic, every table bit-equal to it on odd sizes and
// hostile values, and a row's bits independent of the rows beside it.
#include "kernels/qattention/qattention.h"

#include <cmath>
#include <limits>

#include "kernels/test_util.h"
#include "tensor/arena.h"

namespace minicpm::kernels {
namespace {

using testing_util::GuardedFloats;
using testing_util::Numbers;
using testing_util::ScalarTable;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Packed keys and values of one head.
struct Head {
  Head(const KernelTable& table, const std::vector<float>& k, const std::vector<float>& v, int64_t n, int64_t dim,
       int64_t stride) {
    const int64_t rows = RoundUp(n, kQHeadKeys);
    const int64_t dims = RoundUp(dim, kQHeadDims);
    keys = AllocateAligned(static_cast<size_t>(rows * dims));
    key_scale.resize(static_cast<size_t>(rows));
    values.resize(static_cast<size_t>(rows * dims));
    value_scale.resize(static_cast<size_t>(dims));
    head = {reinterpret_cast<uint8_t*>(keys.get()), key_scale.data(), values.data(), value_scale.data(), n, dim};
    const GuardedFloats guarded_k(k);
    const GuardedFloats guarded_v(v);
    table.qattention->pack(guarded_k.data(), stride, guarded_v.data(), stride, head);
    key_bytes.assign(head.keys, head.keys + rows * dims);
  }
  AlignedBytes keys;
  std::vector<float> key_scale;
  std::vector<int16_t> values;
  std::vector<float> value_scale;
  std::vector<uint8_t> key_bytes;
  QHead head;
};

std::vector<float> Attend(const KernelTable& table, const std::vector<float>& q, int64_t rows, int64_t dim, float scale,
                          const Head& head) {
  const AlignedBytes scratch =
      AllocateAligned(static_cast<size_t>(table.qattention->scratch_bytes(head.head.n_keys, dim)));
  const GuardedFloats guarded_q(q);
  GuardedFloats out(std::vector<float>(static_cast<size_t>(rows * dim), -7.0f));
  table.qattention->attend(guarded_q.data(), dim, rows, scale, head.head, out.data(), dim, scratch.get());
  return {out.data(), out.data() + rows * dim};
}

// Relative error of the whole output against attention in double.
double ErrorAgainstDouble(const std::vector<float>& out, const std::vector<float>& q, const std::vector<float>& k,
                          const std::vector<float>& v, int64_t rows, int64_t n, int64_t dim, int64_t stride,
                          double scale) {
  double error = 0, energy = 0;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> s(static_cast<size_t>(n));
    double top = -1e300, total = 0;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < dim; ++d) {
        sum += static_cast<double>(q[static_cast<size_t>(r * dim + d)]) * k[static_cast<size_t>(j * stride + d)];
      }
      s[static_cast<size_t>(j)] = sum * scale;
      top = std::max(top, sum * scale);
    }
    for (double& x : s) total += x = std::exp(x - top);
    for (int64_t d = 0; d < dim; ++d) {
      double y = 0;
      for (int64_t j = 0; j < n; ++j) y += s[static_cast<size_t>(j)] / total * v[static_cast<size_t>(j * stride + d)];
      error += std::pow(y - out[static_cast<size_t>(r * dim + d)], 2);
      energy += y * y;
    }
  }
  return std::sqrt(error / energy);
}

class QAttentionTest : public testing_util::EveryTable {};

TEST_P(QAttentionTest, CloseToDoubleAndBitEqualToScalar) {
  const int64_t sizes[][3] = {{1, 1, 1},     {5, 16, 8},   {13, 17, 72},  {12, 100, 72},
                              {3, 1030, 72}, {30, 64, 40}, {7, 2050, 24}, {25, 33, 128}};
  for (const auto& [rows, n, dim] : sizes) {
    Numbers numbers(static_cast<uint64_t>(rows * 1000 + n));
    const int64_t stride = dim + 3;
    const std::vector<float> q = numbers.Many(rows * dim);
    const std::vector<float> k = numbers.Many((n - 1) * stride + dim);
    const std::vector<float> v = numbers.Many((n - 1) * stride + dim);
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    const Head truth(ScalarTable(), k, v, n, dim, stride);
    const Head head(table(), k, v, n, dim, stride);
    EXPECT_EQ(head.key_bytes, truth.key_bytes);
    EXPECT_EQ(head.key_scale, truth.key_scale);
    EXPECT_EQ(head.values, truth.values);
    EXPECT_EQ(head.value_scale, truth.value_scale);
    const std::vector<float> expected = Attend(ScalarTable(), q, rows, dim, scale, truth);
    const std::vector<float> out = Attend(table(), q, rows, dim, scale, head);
    EXPECT_EQ(out, expected) << rows << " " << n << " " << dim;
    EXPECT_LT(ErrorAgainstDouble(out, q, k, v, rows, n, dim, stride, scale), 0.03) << n << " " << dim;
  }
}

// One key far above 1000 equal ones: together these weigh more than the peak. 8-bit probabilities would lose them.
TEST_P(QAttentionTest, AFlatTailIsNotLost) {
  const int64_t n = 1001, dim = 8;
  std::vector<float> q(dim, 0.0f), k(static_cast<size_t>(n * dim), 0.0f), v(static_cast<size_t>(n * dim), 1.0f);
  q[0] = 1.0f;
  k[0] = 6.5f;  // e^6.5 = 665
  for (int64_t d = 0; d < dim; ++d) v[static_cast<size_t>(d)] = -1.0f;
  const Head head(table(), k, v, n, dim, dim);
  const std::vector<float> out = Attend(table(), q, 1, dim, 1.0f, head);
  EXPECT_NEAR(out[3], (1000.0 - std::exp(6.5)) / (1000.0 + std::exp(6.5)), 0.02);
}

TEST_P(QAttentionTest, ARowsBitsAreItsOwn) {
  const int64_t rows = 29, n = 50, dim = 72;
  Numbers numbers(4);
  const std::vector<float> q = numbers.Many(rows * dim);
  const std::vector<float> k = numbers.Many(n * dim);
  const Head head(table(), k, numbers.Many(n * dim), n, dim, dim);
  const std::vector<float> all = Attend(table(), q, rows, dim, 0.1f, head);
  for (int64_t first = 0; first < rows; first += 5) {
    const int64_t some = std::min<int64_t>(5, rows - first);
    const std::vector<float> part(q.begin() + first * dim, q.begin() + (first + some) * dim);
    const std::vector<float> expected(all.begin() + first * dim, all.begin() + (first + some) * dim);
    EXPECT_EQ(Attend(table(), part, some, dim, 0.1f, head), expected);
  }
}

TEST_P(QAttentionTest, ExtremesDoNotSaturate) {
  const int64_t n = 1500, dim = 72;
  std::vector<float> q(dim), k(static_cast<size_t>(n * dim)), v(static_cast<size_t>(n * dim), 3.0f);
  for (int64_t d = 0; d < dim; ++d) q[static_cast<size_t>(d)] = d % 3 == 0 ? -1.0f : 1.0f;
  for (size_t i = 0; i < k.size(); ++i) k[i] = q[i % static_cast<size_t>(dim)] * (i / dim % 2 == 0 ? 1.0f : -1.0f);
  const Head head(table(), k, v, n, dim, dim);
  const std::vector<float> out = Attend(table(), q, 1, dim, 1e-6f, head);
  for (const float y : out) EXPECT_NEAR(y, 3.0f, 1e-5f);
  EXPECT_EQ(out, Attend(ScalarTable(), q, 1, dim, 1e-6f, Head(ScalarTable(), k, v, n, dim, dim)));
}

TEST_P(QAttentionTest, ValuesThatAreNoNumbersShow) {
  const int64_t rows = 5, n = 20, dim = 24;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Numbers numbers(9);
    std::vector<float> q = numbers.Many(rows * dim);
    std::vector<float> k = numbers.Many(n * dim);
    std::vector<float> v = numbers.Many(n * dim);
    q[2 * dim + 3] = bad;
    const std::vector<float> out = Attend(table(), q, rows, dim, 0.2f, Head(table(), k, v, n, dim, dim));
    for (int64_t i = 0; i < rows * dim; ++i) EXPECT_EQ(std::isnan(out[static_cast<size_t>(i)]), i / dim == 2) << i;
    for (std::vector<float>* side : {&k, &v}) {
      const float kept = (*side)[7 * dim + 5];
      (*side)[7 * dim + 5] = bad;
      const std::vector<float> none = Attend(table(), q, rows, dim, 0.2f, Head(table(), k, v, n, dim, dim));
      for (const float y : none) EXPECT_TRUE(std::isnan(y));
      (*side)[7 * dim + 5] = kept;
    }
  }
  const std::vector<float> zero(static_cast<size_t>(n * dim), 0.0f);
  const std::vector<float> tiny(static_cast<size_t>(n * dim), 1e-42f);
  for (const std::vector<float>& x : {zero, tiny}) {
    for (const float y : Attend(table(), x, 2, dim, 0.2f, Head(table(), x, x, n, dim, dim))) EXPECT_EQ(y, 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QAttentionTest, testing::ValuesIn(testing_util::RunnableTables()),
                         testing_util::TableName);

}  // namespace
}  // namespace minicpm::kernels
