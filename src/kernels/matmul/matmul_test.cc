// Tests of matmul.h for every table: values against double arithmetic, layouts element by element, and the one promise
// that everything above builds on: dot and tile give the same bits.
#include "kernels/matmul/matmul.h"

#include <algorithm>
#include <memory>

#include "kernels/matmul/matmul_plan.h"
#include "kernels/test_util.h"
#include "tensor/arena.h"

namespace minicpm::kernels {
namespace {

using testing_util::GuardedFloats;
using testing_util::Numbers;
using testing_util::Stored;

constexpr DType kFormats[] = {DType::kF32, DType::kBF16, DType::kF16};
constexpr int64_t kInner[] = {1, 3, 8, 9, 31, 33, 64, 72, 100, 588, 2049, 4304};

class MatmulKernelTest : public testing_util::EveryTable {
 protected:
  const MatmulKernels& kernel() const { return *table().matmul; }
  const WeightKernels& For(DType d) const {
    return d == DType::kF32 ? kernel().f32 : d == DType::kBF16 ? kernel().bf16 : kernel().f16;
  }
};

struct AlignedFloats {
  explicit AlignedFloats(int64_t n)
      : bytes(AllocateAligned(static_cast<size_t>(n) * 4)), data(reinterpret_cast<float*>(bytes.get())) {
    std::fill(data, data + n, -77.0f);
  }
  AlignedBytes bytes;
  float* data;
};

// Sum and sum of magnitudes of one output in double.
void Exact(const float* x, const float* w, int64_t k, double& sum, double& magnitude) {
  sum = magnitude = 0;
  for (int64_t i = 0; i < k; ++i) {
    sum += static_cast<double>(x[i]) * w[i];
    magnitude += std::fabs(static_cast<double>(x[i]) * w[i]);
  }
}

TEST_P(MatmulKernelTest, DotAgreesWithDouble) {
  for (const DType dtype : kFormats) {
    for (const int64_t k : kInner) {
      for (const int m_rows : {1, 2, 3, 4}) {
        for (const int64_t n : {1, 2, 3, 4, 7, 9}) {
          Numbers numbers(static_cast<uint64_t>(k * 100 + n));
          const GuardedFloats x(numbers.Many(m_rows * k));
          const Stored w(numbers.Many(n * k), dtype, Shape{n, k});
          std::vector<float> out(static_cast<size_t>(m_rows * (n + 1)), -77.0f);
          For(dtype).dot(x.data(), k, m_rows, w.view.data, k, n, k, SectionPlan(k).section, out.data(), n + 1);
          for (int m = 0; m < m_rows; ++m) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              double magnitude = 0;
              Exact(x.data() + m * k, w.exact.data() + j * k, k, sum, magnitude);
              ASSERT_NEAR(out[static_cast<size_t>(m * (n + 1) + j)], sum, 2e-6 * magnitude + 1e-30)
                  << NameOf(dtype) << " k " << k << " m " << m << " of " << m_rows << " n " << j << " of " << n;
            }
            ASSERT_EQ(out[static_cast<size_t>(m * (n + 1) + n)], -77.0f) << "written past the end";
          }
        }
      }
    }
  }
}

TEST_P(MatmulKernelTest, PackedLayoutsAreAsWritten) {
  const int width = kernel().panel_width;
  const int height = kernel().tile_rows;
  for (const int64_t len : {1, 7, 8, 24, 37, 64, 130}) {
    const int64_t steps = (len + kLanes - 1) / kLanes;
    const int64_t lane_stride = (steps * width / 16 | 1) * 16;
    const int64_t panel_stride = kLanes * lane_stride + 32;
    for (const DType dtype : kFormats) {
      for (const int n : {1, width / 2 - 1, width / 2, width - 3, width, width + 1, 3 * width - 2}) {
        Numbers numbers(static_cast<uint64_t>(len * 31 + n));
        for (const bool columns : {false, true}) {
          const int64_t stride = columns ? n + 2 : len + 5;
          const int64_t elements = ((columns ? len : n) - 1) * stride + (columns ? n : len);
          const Stored w(numbers.Many(elements), dtype, Shape{elements});
          const int64_t panels = (n + width - 1) / width;
          const AlignedFloats out(panels * panel_stride);
          const auto pack = columns ? For(dtype).pack_columns : For(dtype).pack_rows;
          pack(w.view.data, stride, n, len, steps, out.data, lane_stride, panel_stride);
          for (int64_t k = 0; k < steps * kLanes; ++k) {
            for (int64_t r = 0; r < panels * width; ++r) {
              const int64_t at = columns ? k * stride + r : r * stride + k;
              const float expected = r < n && k < len ? w.exact[static_cast<size_t>(at)] : 0.0f;
              ASSERT_EQ(out.data[r / width * panel_stride + k % kLanes * lane_stride + k / kLanes * width + r % width],
                        expected)
                  << NameOf(dtype) << " len " << len << " n " << n << " k " << k << " r " << r << columns;
            }
          }
        }
      }
    }
    for (int rows = 1; rows <= height; ++rows) {
      Numbers numbers(static_cast<uint64_t>(len + rows));
      const int64_t stride = len + 3;
      const GuardedFloats x(numbers.Many((rows - 1) * stride + len));
      const int64_t lane = steps * height + 3;
      std::vector<float> out(static_cast<size_t>(kLanes * lane), -77.0f);
      kernel().pack_x(x.data(), stride, rows, len, steps, out.data(), lane);
      for (int64_t k = 0; k < steps * kLanes; ++k) {
        for (int r = 0; r < height; ++r) {
          const float expected = r < rows && k < len ? x.data()[r * stride + k] : 0.0f;
          ASSERT_EQ(out[static_cast<size_t>(k % kLanes * lane + k / kLanes * height + r)], expected);
        }
      }
      for (int l = 0; l < kLanes; ++l) {  // the room of the next tile stays as it was
        for (int64_t i = steps * height; i < lane; ++i) ASSERT_EQ(out[static_cast<size_t>(l * lane + i)], -77.0f);
      }
    }
  }
}

// c of `m_rows` rows and one panel by way of pack and tile.
void ByTiles(const MatmulKernels& kernel, const WeightKernels& weights, const float* x, int64_t m_rows, const void* w,
             size_t element, int rows, int64_t k, float* c) {
  const SectionPlan plan(k);
  const int64_t width = kernel.panel_width;
  const int64_t height = kernel.tile_rows;
  const int64_t padded = (m_rows + height - 1) / height * height;
  for (int64_t s = 0; s < plan.count; ++s) {
    const int64_t steps = plan.steps(s);
    const int64_t lane_stride = (steps * width / 16 | 1) * 16;
    const AlignedFloats packed(kLanes * padded * steps);
    const AlignedFloats panel(kLanes * lane_stride);
    for (int64_t m = 0; m < m_rows; m += height) {
      kernel.pack_x(x + m * k + plan.begin(s), k, static_cast<int>(std::min(height, m_rows - m)), plan.len(s), steps,
                    packed.data + m * steps, padded * steps);
    }
    weights.pack_rows(static_cast<const std::byte*>(w) + static_cast<size_t>(plan.begin(s)) * element, k, rows,
                      plan.len(s), steps, panel.data, lane_stride, kLanes * lane_stride);
    for (int64_t l = 0; l < kLanes; ++l) {
      kernel.tile(packed.data + l * padded * steps, steps, m_rows, panel.data + l * lane_stride, s == 0 && l == 0, c);
    }
  }
}

TEST_P(MatmulKernelTest, DotAndTileGiveTheSameBits) {
  const int width = kernel().panel_width;
  for (const DType dtype : kFormats) {
    for (const int64_t k : kInner) {
      for (const int64_t m_rows : {1, 2, 3, 4, 5, 6, 7, 11, 13}) {
        const int rows = m_rows % 2 == 0 ? width : width - 3;
        Numbers numbers(static_cast<uint64_t>(k + m_rows));
        const GuardedFloats x(numbers.Many(m_rows * k));
        const Stored w(numbers.Many(rows * k), dtype, Shape{rows, k});
        const AlignedFloats c(m_rows * width);
        ByTiles(kernel(), For(dtype), x.data(), m_rows, w.view.data, SizeOf(dtype), rows, k, c.data);
        for (int64_t m = 0; m < m_rows; ++m) {
          std::vector<float> out(static_cast<size_t>(rows));
          For(dtype).dot(x.data() + m * k, k, 1, w.view.data, k, rows, k, SectionPlan(k).section, out.data(), rows);
          ASSERT_EQ(std::memcmp(out.data(), c.data + m * width, out.size() * sizeof(float)), 0)
              << NameOf(dtype) << " k " << k << " m " << m << " of " << m_rows;
        }
      }
    }
  }
}

// Several rows at once, and any way to cut rows of w into calls: the same bits as one by one.
TEST_P(MatmulKernelTest, DotDoesNotDependOnNeighbours) {
  for (const DType dtype : kFormats) {
    for (const int64_t k : {9, 72, 2049}) {
      const int64_t n = 11;
      Numbers numbers(static_cast<uint64_t>(k));
      const std::vector<float> x = numbers.Many(4 * k);
      const Stored w(numbers.Many(n * k), dtype, Shape{n, k});
      const int64_t section = SectionPlan(k).section;
      std::vector<float> all(static_cast<size_t>(4 * n));
      For(dtype).dot(x.data(), k, 4, w.view.data, k, n, k, section, all.data(), n);
      for (int m = 0; m < 4; ++m) {
        for (int64_t j = 0; j < n; ++j) {
          float one = 0;
          const auto* row = static_cast<const std::byte*>(w.view.data) + static_cast<size_t>(j * k) * SizeOf(dtype);
          For(dtype).dot(x.data() + m * k, k, 1, row, k, 1, k, section, &one, 1);
          ASSERT_EQ(std::memcmp(&one, &all[static_cast<size_t>(m * n + j)], sizeof(one)), 0) << m << " " << j;
        }
      }
    }
  }
}

TEST_P(MatmulKernelTest, StoreAndBiasKeepToTheirColumns) {
  for (int64_t cols = 1; cols <= 20; ++cols) {
    Numbers numbers(static_cast<uint64_t>(cols));
    const int64_t m_rows = 3;
    const std::vector<float> c = numbers.Many(m_rows * 24);
    const GuardedFloats bias(numbers.Many(cols));
    for (const bool add : {false, true}) {
      std::vector<float> y = numbers.Many(m_rows * (cols + 2));
      const std::vector<float> before = y;
      kernel().store(c.data(), 24, m_rows, cols, add, y.data(), cols + 2);
      std::vector<float> shifted = c;
      kernel().add_bias(bias.data(), m_rows, cols, shifted.data(), 24);
      for (int64_t m = 0; m < m_rows; ++m) {
        for (int64_t n = 0; n < cols + 2; ++n) {
          const auto at = static_cast<size_t>(m * (cols + 2) + n);
          const float v = c[static_cast<size_t>(m * 24 + n)];
          ASSERT_EQ(y[at], n >= cols ? before[at] : add ? before[at] + v : v);
          ASSERT_EQ(shifted[static_cast<size_t>(m * 24 + n)], n < cols ? v + bias.data()[n] : v);
        }
      }
    }
  }
}

TEST(SectionPlan, CoversEveryIndexOnce) {
  for (int64_t k = 1; k < 20000; k += 1 + k / 50) {
    const SectionPlan plan(k);
    EXPECT_EQ(plan.section % kLanes, 0) << k;
    EXPECT_LE(plan.section, kMaxSection) << k;
    int64_t total = 0;
    for (int64_t s = 0; s < plan.count; ++s) {
      EXPECT_EQ(plan.begin(s), total);
      EXPECT_GT(plan.len(s), 0);
      total += plan.len(s);
    }
    EXPECT_EQ(total, k);
    EXPECT_GE(plan.padded(), k);
    EXPECT_LT(plan.padded(), k + kLanes);
  }
}

INSTANTIATE_TEST_SUITE_P(Roster, MatmulKernelTest, testing::ValuesIn(testing_util::RunnableTables()),
                         testing_util::TableName);

}  // namespace
}  // namespace minicpm::kernels
