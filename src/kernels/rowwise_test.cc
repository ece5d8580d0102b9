// Tests of the row-wise families (norm, elementwise, convert, limit) for every table: against the scalar one on every
// length up to 40 and a few long ones, in guarded memory; accuracy of the activations over their whole range;
// conversions exhaustively.
#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "kernels/convert/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/limit/limit.h"
#include "kernels/norm/norm.h"
#include "kernels/test_util.h"

namespace minicpm::kernels {
namespace {

using testing_util::Guarded;
using testing_util::GuardedFloats;
using testing_util::Numbers;
using testing_util::ScalarTable;

class RowKernelTest : public testing_util::EveryTable {};

std::vector<int64_t> Lengths() {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 40; ++n) lengths.push_back(n);
  lengths.insert(lengths.end(), {72, 127, 1152, 4304});
  return lengths;
}

// Largest |a - b| over the largest |b|; infinity when a difference is not a number. std::max, because two reductions by
// std::fmax in one loop make g++ 12 for aarch64 fail at -O3 ("internal compiler error: in vect_transform_reduction").
double Distance(const float* a, const float* b, int64_t n) {
  double worst = 0;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return worst / std::max(largest, 1e-30);
}

TEST_P(RowKernelTest, Norms) {
  for (const int64_t n : Lengths()) {
    Numbers numbers(static_cast<uint64_t>(n));
    std::vector<float> values = numbers.Many(n, 5.0f);
    for (float& f : values) f += 2.0f;
    const GuardedFloats x(values);
    const GuardedFloats weight(numbers.Many(n));
    const GuardedFloats bias(numbers.Many(n));
    const GuardedFloats expected(values);
    const GuardedFloats y(values);
    ScalarTable().norm->layer_norm(x.data(), n, weight.data(), bias.data(), 1e-6f, expected.data());
    table().norm->layer_norm(x.data(), n, weight.data(), bias.data(), 1e-6f, y.data());
    if (n > 2) {
      EXPECT_LT(Distance(y.data(), expected.data(), n), 2e-6) << "layer " << n;
    }
    ScalarTable().norm->rms_norm(x.data(), n, weight.data(), 1e-6f, expected.data());
    table().norm->rms_norm(x.data(), n, weight.data(), 1e-6f, y.data());
    EXPECT_LT(Distance(y.data(), expected.data(), n), 5e-7) << "rms " << n;
    table().norm->rms_norm(x.data(), n, weight.data(), 1e-6f, x.data());
    EXPECT_EQ(std::memcmp(x.data(), y.data(), static_cast<size_t>(n) * sizeof(float)), 0) << "in place " << n;
  }
}

TEST_P(RowKernelTest, ElementwiseVerbs) {
  const ElementwiseKernels& kernel = *table().elementwise;
  const ElementwiseKernels& scalar = *ScalarTable().elementwise;
  for (const int64_t n : Lengths()) {
    Numbers numbers(static_cast<uint64_t>(n));
    const std::vector<float> a = numbers.Many(2 * n, 3.0f);
    const GuardedFloats b(numbers.Many(n, 3.0f));
    const GuardedFloats c(numbers.Many(n));
    using Verb = std::function<void(const ElementwiseKernels&, float*)>;
    const std::array<std::pair<const char*, Verb>, 7> verbs = {{
        {"add", [&](const ElementwiseKernels& k, float* y) { k.add(b.data(), n, y); }},
        {"silu", [&](const ElementwiseKernels& k, float* y) { k.silu_mul(y, b.data(), n); }},
        {"sigmoid", [&](const ElementwiseKernels& k, float* y) { k.sigmoid_mul(b.data(), n, y); }},
        {"gelu tanh", [&](const ElementwiseKernels& k, float* y) { k.gelu_tanh(y, n); }},
        {"gelu erf", [&](const ElementwiseKernels& k, float* y) { k.gelu_erf(y, n); }},
        {"relu", [&](const ElementwiseKernels& k, float* y) { k.relu(y, n); }},
        {"rotate", [&](const ElementwiseKernels& k, float* y) { k.rotate(y, n, b.data(), c.data()); }},
    }};
    for (const auto& [name, verb] : verbs) {
      const bool twice = std::string_view(name) == "rotate";
      const std::vector<float> start(a.begin(), a.begin() + (twice ? 2 * n : n));
      const GuardedFloats expected(start);
      const GuardedFloats y(start);
      verb(scalar, expected.data());
      verb(kernel, y.data());
      EXPECT_LT(Distance(y.data(), expected.data(), static_cast<int64_t>(start.size())), 1e-6) << name << " " << n;
    }
  }
}

// One value after the other against double: an error may not hide behind a larger neighbour.
TEST_P(RowKernelTest, ActivationsAreAccurateEverywhere) {
  const ElementwiseKernels& kernel = *table().elementwise;
  std::vector<float> x;
  for (int i = -40000; i <= 40000; ++i) x.push_back(static_cast<float>(i) * 0.003f);
  for (const float f : {1e-30f, -1e-30f, 1e-10f, -1e-10f, 1e4f, -1e4f, 3e38f, 0.0f, -0.0f}) x.push_back(f);
  const auto n = static_cast<int64_t>(x.size());
  const auto check = [&](const char* name, const std::vector<float>& y, auto exact) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = exact(static_cast<double>(x[i]));
      ASSERT_NEAR(y[i], e, 3e-7 * std::fmax(std::fabs(e), std::fabs(x[i])) + 1e-37) << name << " of " << x[i];
    }
  };
  std::vector<float> y = x;
  kernel.gelu_tanh(y.data(), n);
  check("gelu tanh", y,
        [](double v) { return 0.5 * v * (1 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v))); });
  y = x;
  kernel.gelu_erf(y.data(), n);
  check("gelu erf", y, [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); });
  y = x;
  const std::vector<float> ones(x.size(), 1.0f);
  kernel.silu_mul(y.data(), ones.data(), n);
  check("silu", y, [](double v) { return v / (1 + std::exp(-v)); });
}

TEST_P(RowKernelTest, NanStaysNan) {
  const ElementwiseKernels& kernel = *table().elementwise;
  std::vector<float> y(11, std::nanf(""));
  kernel.gelu_tanh(y.data(), 11);
  for (const float f : y) EXPECT_TRUE(std::isnan(f));
  kernel.gelu_erf(y.data(), 11);
  for (const float f : y) EXPECT_TRUE(std::isnan(f));
  const std::vector<float> ones(11, 1.0f);
  kernel.silu_mul(y.data(), ones.data(), 11);
  for (const float f : y) EXPECT_TRUE(std::isnan(f));
}

TEST_P(RowKernelTest, ConversionsAreExact) {
  const ConvertKernels& kernel = *table().convert;
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(all.size());
  const auto same = [](float a, float b) { return std::isnan(b) ? std::isnan(a) : std::memcmp(&a, &b, 4) == 0; };
  kernel.bf16_to_f32(all.data(), 65536, wide.data());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same(wide[i], Bf16ToF32(all[i]))) << i;
  kernel.f16_to_f32(all.data(), 65536, wide.data());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same(wide[i], F16ToF32(all[i]))) << i;

  Numbers numbers(1);
  std::vector<float> any(200003);
  for (float& f : any) f = std::bit_cast<float>(numbers.Bits());
  for (size_t i = 0; i < 70000; ++i)
    any[i] = std::ldexp(numbers.Next(), static_cast<int>(i % 48) - 30);  // where half lives
  std::vector<uint16_t> narrow(any.size());
  kernel.f32_to_f16(any.data(), static_cast<int64_t>(any.size()), narrow.data());
  for (size_t i = 0; i < any.size(); ++i) {
    if (std::isnan(any[i])) {
      ASSERT_TRUE(std::isnan(F16ToF32(narrow[i]))) << i;
    } else {
      ASSERT_EQ(narrow[i], F32ToF16(any[i])) << any[i];
    }
  }
}

TEST_P(RowKernelTest, ConversionsKeepToTheirLength) {
  for (int64_t n = 1; n <= 40; ++n) {
    const Guarded halves(static_cast<size_t>(n) * 2);
    auto* h = reinterpret_cast<uint16_t*>(halves.data());
    for (int64_t i = 0; i < n; ++i) h[i] = static_cast<uint16_t>(0x3c00 + i);
    const GuardedFloats wide(std::vector<float>(static_cast<size_t>(n)));
    table().convert->f16_to_f32(h, n, wide.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(wide.data()[i], F16ToF32(h[i]));
    const Guarded back(static_cast<size_t>(n) * 2);
    table().convert->f32_to_f16(wide.data(), n, reinterpret_cast<uint16_t*>(back.data()));
    ASSERT_EQ(std::memcmp(back.data(), h, static_cast<size_t>(n) * 2), 0);
    table().convert->bf16_to_f32(h, n, wide.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(wide.data()[i], Bf16ToF32(h[i]));
  }
}

TEST_P(RowKernelTest, LimitsReadEverything) {
  alignas(64) static uint64_t words[256];
  Numbers numbers(2);
  uint64_t expected = 0;
  for (uint64_t& w : words) {
    w = static_cast<uint64_t>(numbers.Bits()) << 32 | numbers.Bits();
    expected ^= w;
  }
  EXPECT_EQ(table().limit->read(words, sizeof(words)), expected);
  EXPECT_GT(table().limit->multiply_add(10), 0.0f);
  EXPECT_GT(table().limit->flops_per_turn, 0);
  for (const auto mix : {table().limit->int8_mix, table().limit->int4_mix}) {
    const auto one = static_cast<uint32_t>(mix(1));
    EXPECT_NE(one, 0u);
    EXPECT_EQ(static_cast<uint32_t>(mix(1000)), 1000 * one);
  }
  EXPECT_GT(table().limit->int8_ops_per_turn, 0);
  EXPECT_GT(table().limit->int4_ops_per_turn, 0);
}

INSTANTIATE_TEST_SUITE_P(Roster, RowKernelTest, testing::ValuesIn(testing_util::RunnableTables()),
                         testing_util::TableName);

}  // namespace
}  // namespace minicpm::kernels
