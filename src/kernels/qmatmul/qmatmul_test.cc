// Tests of qmatmul.h: the scalar twin against decoded weights in double, every instruction set against the scalar twin
// bit for bit, operands at the edge of what 16 bits hold, and values that are not numbers.
#include "kernels/qmatmul/qmatmul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/test_util.h"
#include "quant/packed.h"
#include "tensor/arena.h"

namespace minicpm::kernels {

#ifdef MINICPM_KERNELS_AVX2
extern const QMatmulKernels avx_vnni_emulated_qmatmul;
#endif

namespace {

using testing_util::Guarded;
using testing_util::GuardedFloats;
using testing_util::Numbers;

constexpr DType kFormats[] = {DType::kInt8Packed, DType::kInt4Packed};
constexpr int64_t kInner[] = {1, 15, 16, 17, 100, 127, 128, 129, 255, 257, 500, 1024, 1152, 1300, 2063, 4304};

const PackedMatmulKernels& Of(const KernelTable& table, DType dtype) {
  return dtype == DType::kInt8Packed ? table.qmatmul->int8 : table.qmatmul->int4;
}
const ActivationFormat& FormatOf(DType dtype) {
  return dtype == DType::kInt8Packed ? kInt8Activation : kInt4Activation;
}

// Panels whose last byte touches a page that faults, 64-byte aligned as in a file.
struct Panels {
  Panels(DType type, int64_t n_panels, int64_t inner)
      : dtype(type),
        n(n_panels),
        k(inner),
        padded_k(quant::PaddedColumns(type, inner)),
        bytes(quant::PanelBytes(type, inner)),
        memory(static_cast<size_t>(n_panels * bytes)) {}
  std::byte* panel(int64_t p) const { return memory.data() + p * bytes; }
  TensorView view() const { return {memory.data(), dtype, Shape{n * kPanelRows, k}}; }
  DType dtype;
  int64_t n, k, padded_k, bytes;
  Guarded memory;
};

// Panels of seeded weights.
struct Encoded : Panels {
  Encoded(DType type, int64_t n_panels, int64_t inner, Numbers& numbers) : Panels(type, n_panels, inner) {
    for (int64_t p = 0; p < n; ++p) {
      const std::vector<float> w = numbers.Many(kPanelRows * k, 0.1f);
      quant::EncodeStats stats;
      EXPECT_TRUE(
          quant::EncodePanel(dtype, w.data(), k, kPanelRows, k, quant::Search::kNearest, panel(p), stats).has_value());
    }
  }
};

// Rows quantised by one table, every array ending at a page that faults.
struct Rows {
  Rows(const KernelTable& table, DType dtype, const float* x, int64_t m_rows, int64_t k, int64_t x_stride)
      : format(FormatOf(dtype)), m(m_rows), padded_k(quant::PaddedColumns(dtype, k)) {
    const int64_t stride = (padded_k + 63) / 64 * 64;
    const int64_t starts = padded_k / format.run * 2;
    const int64_t blocks = (padded_k + format.block - 1) / format.block;
    q = std::make_unique<Guarded>(static_cast<size_t>(m * stride));
    start = std::make_unique<Guarded>(static_cast<size_t>(m * starts) * sizeof(int16_t));
    scale = std::make_unique<Guarded>(static_cast<size_t>(m * blocks) * sizeof(float));
    view = {reinterpret_cast<int8_t*>(q->data()),    stride, reinterpret_cast<int16_t*>(start->data()), starts,
            reinterpret_cast<float*>(scale->data()), blocks};
    for (int64_t r = 0; r < m; ++r) {
      Of(table, dtype)
          .quantize(x + r * x_stride, k, padded_k, view.q + r * stride, view.start + r * starts,
                    view.scale + r * blocks);
    }
  }
  const ActivationFormat& format;
  int64_t m, padded_k;
  std::unique_ptr<Guarded> q, start, scale;
  QuantizedRows view;
};

struct AlignedFloats {
  explicit AlignedFloats(int64_t n)
      : bytes(AllocateAligned(static_cast<size_t>(n) * 4)), data(reinterpret_cast<float*>(bytes.get())) {
    std::fill(data, data + n, -77.0f);
  }
  AlignedBytes bytes;
  float* data;
};

// [m, n_panels * 16] by `few`, with a gap after every row that must stay as it was.
std::vector<float> ByFew(const KernelTable& table, const Rows& x, const Panels& w) {
  const int64_t cols = w.n * kPanelRows;
  const int64_t stride = cols + 5;
  std::vector<float> c(static_cast<size_t>(x.m * stride), -77.0f);
  Of(table, w.dtype).few(x.view, x.m, w.panel(0), w.bytes, w.n, w.padded_k, c.data(), stride);
  std::vector<float> out;
  for (int64_t m = 0; m < x.m; ++m) {
    const float* const row = c.data() + m * stride;
    out.insert(out.end(), row, row + cols);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(row[cols + i], -77.0f) << "written past the end of row " << m;
  }
  return out;
}

// By `many`, `group` panels at a time.
std::vector<float> ByMany(const KernelTable& table, const Rows& x, const Panels& w, int64_t group = 3) {
  std::vector<float> out(static_cast<size_t>(x.m * w.n * kPanelRows));
  const int64_t stride = (group + 1) * kPanelRows;
  const AlignedFloats c(x.m * stride);
  const AlignedBytes scratch = AllocateAligned(static_cast<size_t>(table.qmatmul->scratch_bytes));
  for (int64_t p = 0; p < w.n; p += group) {
    const int64_t panels = std::min(group, w.n - p);
    std::fill(c.data, c.data + x.m * stride, -77.0f);
    Of(table, w.dtype).many(x.view, x.m, w.panel(p), w.bytes, panels, w.padded_k, c.data, stride, scratch.get());
    for (int64_t m = 0; m < x.m; ++m) {
      const float* const row = c.data + m * stride;
      std::copy_n(row, panels * kPanelRows, out.data() + (m * w.n + p) * kPanelRows);
      for (int64_t i = panels * kPanelRows; i < stride; ++i) EXPECT_EQ(row[i], -77.0f) << "written past a row";
    }
  }
  return out;
}

// Equal bits, except that any NaN is like any other.
void ExpectSame(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0) << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

std::string Name(DType dtype, int64_t k, int64_t m) {
  return std::string(NameOf(dtype)) + " k " + std::to_string(k) + " m " + std::to_string(m);
}

// The integers of the product, from the integers of the weights: what no kernel may deviate from.
TEST(QMatmulScalar, AgreesWithDecodedWeights) {
  const KernelTable& scalar = testing_util::ScalarTable();
  for (const DType dtype : kFormats) {
    for (const int64_t k : kInner) {
      Numbers numbers(static_cast<uint64_t>(k));
      const int64_t m_rows = 3;
      const Encoded w(dtype, 2, k, numbers);
      const GuardedFloats x(numbers.Many(m_rows * k));
      const Rows rows(scalar, dtype, x.data(), m_rows, k, k);
      const std::vector<float> c = ByFew(scalar, rows, w);
      for (int64_t n = 0; n < w.n * kPanelRows; ++n) {
        std::vector<float> decoded(static_cast<size_t>(k));
        quant::DecodeRow(w.view(), n, decoded.data());
        for (int64_t m = 0; m < m_rows; ++m) {
          double exact = 0;     // with the activations that the kernel saw
          double original = 0;  // with the activations that it was given
          double magnitude = 0;
          double most = 0;
          for (int64_t i = 0; i < k; ++i) {
            const double scale = rows.view.scale[m * rows.view.scale_stride + i / rows.format.block];
            const double q = rows.view.q[m * rows.view.q_stride + i];
            const double v = x.data()[m * k + i];
            ASSERT_LE(std::fabs(q * scale - v), scale * 0.500001) << Name(dtype, k, m) << " column " << i;
            exact += q * scale * decoded[static_cast<size_t>(i)];
            original += v * decoded[static_cast<size_t>(i)];
            magnitude += std::fabs(q * scale * decoded[static_cast<size_t>(i)]);
            most += 0.5 * scale * std::fabs(decoded[static_cast<size_t>(i)]);
          }
          const double found = c[static_cast<size_t>(m * w.n * kPanelRows + n)];
          ASSERT_NEAR(found, exact, 1e-6 * magnitude + 1e-30) << Name(dtype, k, m) << " n " << n;
          ASSERT_NEAR(found, original, most + 1e-6 * magnitude + 1e-30) << Name(dtype, k, m) << " n " << n;
        }
      }
    }
  }
}

TEST(QMatmulScalar, StartsAreTheSumsOfTheirPairs) {
  const KernelTable& scalar = testing_util::ScalarTable();
  for (const DType dtype : kFormats) {
    Numbers numbers(5);
    const std::vector<float> x = numbers.Many(300);
    const Rows rows(scalar, dtype, x.data(), 1, 300, 300);
    for (int64_t first = 0; first < rows.padded_k; first += rows.format.run) {
      for (int odd = 0; odd < 2; ++odd) {
        int sum = 0;
        for (int64_t i = first; i < first + rows.format.run; ++i) {
          if (i / 2 % 2 == odd) sum += rows.view.q[i];
        }
        const int start = rows.view.start[first / rows.format.run * 2 + odd];
        EXPECT_EQ((start + rows.format.zero_point * sum) % 65536, 0) << first << " " << odd;
      }
    }
  }
}

class QMatmulKernelTest : public testing_util::EveryTable {};

TEST_P(QMatmulKernelTest, AgreesWithScalarBitForBit) {
  const KernelTable& scalar = testing_util::ScalarTable();
  for (const DType dtype : kFormats) {
    for (const int64_t k : kInner) {
      Numbers numbers(static_cast<uint64_t>(k) * 7);
      const Encoded w(dtype, 5, k, numbers);
      const GuardedFloats x(numbers.Many(17 * (k + 3)));
      for (int64_t m = 1; m <= 17; ++m) {
        // The last rows, so that the end of x is at the fault.
        const float* const from = x.data() + (17 - m) * (k + 3);
        const Rows expected_rows(scalar, dtype, from, m, k, k + 3);
        const Rows rows(table(), dtype, from, m, k, k + 3);
        ASSERT_EQ(std::memcmp(rows.q->data(), expected_rows.q->data(),
                              static_cast<size_t>((m - 1) * rows.view.q_stride + rows.padded_k)),
                  0)
            << Name(dtype, k, m);
        ASSERT_EQ(std::memcmp(rows.view.scale, expected_rows.view.scale,
                              static_cast<size_t>(m * rows.view.scale_stride) * sizeof(float)),
                  0)
            << Name(dtype, k, m);
        const std::vector<float> expected = ByFew(scalar, expected_rows, w);
        ExpectSame(ByFew(table(), rows, w), expected, "few " + Name(dtype, k, m));
        ExpectSame(ByMany(table(), rows, w), expected, "many " + Name(dtype, k, m));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// More rows than a kernel takes at once.
TEST_P(QMatmulKernelTest, ManyRows) {
  for (const DType dtype : kFormats) {
    const int64_t k = 1040;
    Numbers numbers(19);
    const Encoded w(dtype, 2, k, numbers);
    const std::vector<float> x = numbers.Many(401 * k);
    const Rows rows(table(), dtype, x.data(), 401, k, k);
    const std::vector<float> few = ByFew(table(), rows, w);
    ExpectSame(ByMany(table(), rows, w, 1), few, "one by one");
    ExpectSame(ByMany(table(), rows, w, 2), few, "two by two");
  }
}

// Any cut of the work: panels one by one, rows one by one.
TEST_P(QMatmulKernelTest, NeighboursDoNotMatter) {
  for (const DType dtype : kFormats) {
    const int64_t k = 700;
    Numbers numbers(11);
    const Encoded w(dtype, 7, k, numbers);
    const std::vector<float> x = numbers.Many(9 * k);
    const Rows all(table(), dtype, x.data(), 9, k, k);
    const std::vector<float> c = ByFew(table(), all, w);
    for (int64_t m = 0; m < 9; ++m) {
      const Rows one(table(), dtype, x.data() + m * k, 1, k, k);
      for (int64_t p = 0; p < w.n; ++p) {
        std::vector<float> part(kPanelRows);
        Of(table(), dtype).few(one.view, 1, w.panel(p), w.bytes, 1, w.padded_k, part.data(), kPanelRows);
        const auto at = c.begin() + (m * w.n + p) * kPanelRows;
        ExpectSame(part, std::vector<float>(at, at + kPanelRows), Name(dtype, k, m));
      }
    }
  }
}

// Weights as large as the format allows, in the pattern that makes the 16-bit sums largest.
void FillExtreme(Panels& w, int variant) {
  for (int64_t p = 0; p < w.n; ++p) {
    auto* const scale = reinterpret_cast<float*>(w.panel(p));
    for (int64_t r = 0; r < kPanelRows; ++r) scale[r] = variant % 2 == 0 ? 0.5f : -3.0f;
    auto* const bytes = reinterpret_cast<uint8_t*>(w.panel(p)) + quant::kPanelHeaderBytes;
    for (int64_t i = 0; i < w.bytes - quant::kPanelHeaderBytes; ++i) {
      if (w.dtype == DType::kInt8Packed) {
        // A lane holds 8 weights of 16 columns, 258 in all: 63 * 4 + 6.
        const int64_t column = i / 64 * 4 + i % 4;
        const int64_t in_lane = column % 16 / 4 * 2 + column % 2;
        const int magnitude = in_lane < 4 ? 63 : in_lane == 4 ? 6 : 0;
        const bool negative = variant < 2 ? variant == 1 : variant == 2 ? i / 4 % 2 == 0 : in_lane % 2 == 0;
        bytes[i] = static_cast<uint8_t>(64 + (negative ? -magnitude : magnitude));
      } else if (i % quant::kInt4BlockBytes < 64) {
        bytes[i] = static_cast<uint8_t>(static_cast<int8_t>(variant < 2 || i % 2 == 0 ? 127 : -127));
      } else {
        bytes[i] = variant % 2 == 0 ? 0x00 : 0xff;
        if (variant == 3) bytes[i] = i % 2 == 0 ? 0x0f : 0xf0;
      }
    }
  }
}

TEST_P(QMatmulKernelTest, NothingSaturates) {
  const KernelTable& scalar = testing_util::ScalarTable();
  for (const DType dtype : kFormats) {
    for (int variant = 0; variant < 4; ++variant) {
      for (int signs = 0; signs < 3; ++signs) {
        const int64_t k = 2 * kUnpackColumns + 128;
        Panels w(dtype, 3, k);
        FillExtreme(w, variant);
        ASSERT_TRUE(quant::CheckPacked(w.view()).has_value());
        const int64_t m_rows = 7;
        std::vector<float> x(static_cast<size_t>(m_rows * k));
        for (size_t i = 0; i < x.size(); ++i) {
          // All one sign, or the sign that makes every product of the alternating variants positive.
          x[i] = signs == 0 ? 2.0f : signs == 1 ? -2.0f : i % 2 == 0 ? -2.0f : 2.0f;
        }
        const Rows rows(table(), dtype, x.data(), m_rows, k, k);
        for (int64_t i = 0; i < k; ++i) ASSERT_EQ(std::abs(rows.view.q[i]), 127);
        const std::string what = Name(dtype, variant, signs);
        const std::vector<float> few = ByFew(table(), rows, w);
        ExpectSame(few, ByFew(scalar, Rows(scalar, dtype, x.data(), m_rows, k, k), w), what);
        ExpectSame(ByMany(table(), rows, w), few, what);
        std::vector<float> decoded(static_cast<size_t>(k));
        for (int64_t n = 0; n < w.n * kPanelRows; ++n) {
          quant::DecodeRow(w.view(), n, decoded.data());
          double exact = 0;
          for (int64_t i = 0; i < k; ++i) {
            exact += static_cast<double>(decoded[static_cast<size_t>(i)]) * x[static_cast<size_t>(i)];
          }
          ASSERT_NEAR(few[static_cast<size_t>(n)], exact, 1e-5 * std::fabs(exact) + 1e-6) << what << " n " << n;
        }
      }
    }
  }
}

TEST_P(QMatmulKernelTest, StrangeActivations) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  const KernelTable& scalar = testing_util::ScalarTable();
  for (const DType dtype : kFormats) {
    const int64_t k = 1100;
    Numbers numbers(3);
    const Encoded w(dtype, 2, k, numbers);
    for (const float odd : {kInf, -kInf, kNan, -kNan, 0.0f, -0.0f, kTiny, 3e-37f, 4e-37f, -1e-30f, 3e38f, -3.4e38f}) {
      for (const int64_t at : {int64_t{0}, int64_t{7}, int64_t{640}, k - 1}) {
        for (const bool alone : {false, true}) {
          std::vector<float> x = alone ? std::vector<float>(static_cast<size_t>(k), 0.0f) : numbers.Many(k);
          x[static_cast<size_t>(at)] = odd;
          const Rows rows(table(), dtype, x.data(), 1, k, k);
          const Rows expected(scalar, dtype, x.data(), 1, k, k);
          ASSERT_EQ(std::memcmp(rows.view.q, expected.view.q, static_cast<size_t>(rows.padded_k)), 0) << odd << at;
          const std::vector<float> few = ByFew(table(), rows, w);
          const std::string what = Name(dtype, at, alone) + " value " + std::to_string(odd);
          ExpectSame(few, ByFew(scalar, expected, w), what);
          ExpectSame(ByMany(table(), rows, w), few, what);
          for (const float f : few) ASSERT_EQ(std::isnan(f), !std::isfinite(odd)) << what << " gives " << f;
          if (alone && std::fabs(odd) < 3.5e-37f) {
            for (const float f : few) ASSERT_EQ(f, 0.0f) << what;
          }
        }
      }
    }
  }
}

// The tables that this CPU runs, and one that it runs with an instruction spelled out.
std::vector<const KernelTable*> Tables() {
  std::vector<const KernelTable*> tables = testing_util::RunnableTables();
#ifdef MINICPM_KERNELS_AVX2
  if (DetectCpuFeatures().avx2) {
    static const KernelTable emulated = [] {
      KernelTable table = testing_util::ScalarTable();
      table.isa = "avx_vnni_emulated";
      table.qmatmul = &avx_vnni_emulated_qmatmul;
      return table;
    }();
    tables.push_back(&emulated);
  }
#endif
  return tables;
}

INSTANTIATE_TEST_SUITE_P(Roster, QMatmulKernelTest, testing::ValuesIn(Tables()), testing_util::TableName);

}  // namespace
}  // namespace minicpm::kernels
