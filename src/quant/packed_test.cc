// Tests of packed.h: layout byte by byte, promises for hostile weights, error against rounding to nearest.
#include "quant/packed.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace minicpm::quant {
namespace {

// A packed matrix and what it was made from.
struct Packed {
  Packed(DType dtype, const std::vector<float>& w, int64_t n, int64_t k, Search search = Search::kLeastSquares)
      : bytes(static_cast<size_t>(PackedBytes(dtype, n, k))) {
    for (int64_t row = 0; row < n; row += kPanelRows) {
      const Status s = EncodePanel(dtype, w.data() + row * k, k, std::min(kPanelRows, n - row), k, search,
                                   bytes.data() + row / kPanelRows * PanelBytes(dtype, k), stats);
      EXPECT_TRUE(s.has_value());
    }
    view = {bytes.data(), dtype, Shape{n, k}};
  }
  std::vector<float> Decoded() const {
    std::vector<float> out(static_cast<size_t>(view.shape.elements()));
    for (int64_t r = 0; r < view.shape[0]; ++r) DecodeRow(view, r, out.data() + r * view.shape[1]);
    return out;
  }
  std::vector<std::byte> bytes;
  EncodeStats stats;
  TensorView view;
};

// std::mt19937's numbers are the same everywhere; the distributions are not, so normal ones are made here.
std::vector<float> Normal(size_t n, uint32_t seed, double outlier = 1) {
  std::mt19937 bits(seed);
  std::vector<float> v(n);
  for (float& f : v) {
    const double u = (bits() + 1.0) / 4294967297.0;
    const double angle = bits() / 4294967296.0 * 6.283185307179586;
    const double x = std::sqrt(-2 * std::log(u)) * std::cos(angle);
    f = static_cast<float>(0.02 * (bits() % 128 == 0 ? outlier * x : x));
  }
  return v;
}

double RelativeError(const EncodeStats& s) { return std::sqrt(s.error / s.energy); }

TEST(Packed, Sizes) {
  EXPECT_EQ(PanelBytes(DType::kInt8Packed, 1152), 64 + 1152 * 16);
  EXPECT_EQ(PanelBytes(DType::kInt8Packed, 4304), 64 + 4304 * 16);
  EXPECT_EQ(PanelBytes(DType::kInt8Packed, 1), 64 + 256);
  EXPECT_EQ(PanelBytes(DType::kInt4Packed, 4096), 64 + 32 * 1088);
  EXPECT_EQ(PackedBytes(DType::kInt4Packed, 17, 129), 2 * (64 + 2 * 1088));
  EXPECT_FALSE(CheckedPackedBytes(DType::kInt4Packed, 0, 5).has_value());
  EXPECT_FALSE(CheckedPackedBytes(DType::kInt4Packed, int64_t{1} << 40, int64_t{1} << 40).has_value());
  EXPECT_FALSE(CheckedPackedBytes(DType::kF32, 5, 5).has_value());
  EXPECT_EQ(CheckedPackedBytes(DType::kInt8Packed, 16, 16), 64 + 256);
}

TEST(Packed, Int8BytesStandWhereTheHeaderSays) {
  std::vector<float> w(16 * 16, 0.0f);
  w[5 * 16 + 6] = 63.0f;  // row 5, column 6
  w[5 * 16 + 7] = -20.0f;
  const Packed p(DType::kInt8Packed, w, 16, 16, Search::kNearest);
  const auto* bytes = reinterpret_cast<const uint8_t*>(p.bytes.data());
  EXPECT_EQ(RowScale(p.view, 5), 1.0f);
  EXPECT_EQ(bytes[64 + 64 * 1 + 4 * 5 + 2], 64 + 63);
  EXPECT_EQ(bytes[64 + 64 * 1 + 4 * 5 + 3], 64 - 20);
  EXPECT_EQ(bytes[64 + 64 * 1 + 4 * 4 + 2], 64);
  EXPECT_EQ(p.Decoded(), w);
}

TEST(Packed, Int4BytesStandWhereTheHeaderSays) {
  std::vector<float> w(16 * 128, 0.0f);
  w[9 * 128 + 33] = 7.0f;   // row 9, group 1, piece 4, low half
  w[9 * 128 + 37] = -3.0f;  // a high half
  w[9 * 128 + 0] = 3.5f;    // group 0 with half the scale
  const Packed p(DType::kInt4Packed, w, 16, 128, Search::kNearest);
  const auto* block = reinterpret_cast<const uint8_t*>(p.bytes.data()) + 64;
  EXPECT_EQ(SubScaleSlot(9), 5);
  EXPECT_EQ(block[16 * 1 + 5], 127);
  EXPECT_EQ(block[16 * 0 + 5], 64);  // 63.5 to even
  EXPECT_EQ(block[64 + 4 * 64 + 4 * 9 + 1], (8 + 7) | (8 - 3) << 4);
  EXPECT_EQ(block[64 + 4 * 64 + 4 * 8 + 1], 8 | 8 << 4);
  const std::vector<float> decoded = p.Decoded();
  EXPECT_FLOAT_EQ(decoded[9 * 128 + 33], 7.0f);
  EXPECT_FLOAT_EQ(decoded[9 * 128 + 37], -3.0f);
}

TEST(Packed, SubScaleSlotsAreAPermutation) {
  int seen = 0;
  for (int r = 0; r < 16; ++r) seen |= 1 << SubScaleSlot(r);
  EXPECT_EQ(seen, 0xffff);
  EXPECT_EQ(SubScaleSlot(4), 8);
  EXPECT_EQ(SubScaleSlot(8), 4);
}

TEST(Packed, PaddingDecodesToZero) {
  for (const DType dtype : {DType::kInt8Packed, DType::kInt4Packed}) {
    const Packed p(dtype, Normal(19 * 37, 3), 19, 37);
    std::vector<int32_t> q(static_cast<size_t>(PaddedColumns(dtype, 37)));
    for (int64_t r = 0; r < 19; ++r) {
      DecodeIntegers(p.view, r, q.data());
      for (size_t k = 37; k < q.size(); ++k) EXPECT_EQ(q[k], 0);
    }
    const TensorView all{p.bytes.data(), dtype, Shape{32, 37}};
    for (int64_t r = 19; r < 32; ++r) EXPECT_EQ(RowScale(all, r), 0.0f);
    EXPECT_TRUE(CheckPacked(all).has_value());
  }
}

TEST(Packed, RowsOfAMatrixAreAMatrix) {
  const std::vector<float> w = Normal(48 * 40, 4);
  const Packed p(DType::kInt4Packed, w, 48, 40);
  const TensorView part = PackedRows(p.view, 16, 20);
  std::vector<float> a(40), b(40);
  DecodeRow(p.view, 30, a.data());
  DecodeRow(part, 14, b.data());
  EXPECT_EQ(a, b);
}

// Relative errors of the weights: to nearest, and searched. Bounds are a little above what was measured.
TEST(Packed, SearchBeatsRoundingToNearest) {
  for (const double outlier : {1.0, 6.0}) {
    const std::vector<float> w = Normal(64 * 4096, 5, outlier);
    const Packed nearest(DType::kInt4Packed, w, 64, 4096, Search::kNearest);
    const Packed searched(DType::kInt4Packed, w, 64, 4096);
    const double a = RelativeError(nearest.stats);
    const double b = RelativeError(searched.stats);
    RecordProperty(outlier == 1 ? "normal" : "outliers", std::to_string(a) + " -> " + std::to_string(b));
    std::printf("INT4 error, outliers x%.0f: nearest %.4f, searched %.4f (%.1f %% lower)\n", outlier, a, b,
                100 * (1 - b / a));
    EXPECT_LT(b, 0.855 * a);  // the first scale alone, refined, gives 0.86 of the error
    double sum = 0, energy = 0;
    const std::vector<float> decoded = searched.Decoded();
    for (size_t i = 0; i < w.size(); ++i) {
      sum += std::pow(static_cast<double>(w[i]) - decoded[i], 2);
      energy += std::pow(static_cast<double>(w[i]), 2);
    }
    EXPECT_NEAR(std::sqrt(sum / energy), b, 1e-6);
  }
}

TEST(Packed, Int8ErrorIsSmallAndFewLanesAreTouched) {
  const Packed p(DType::kInt8Packed, Normal(64 * 1152, 6), 64, 1152);
  std::printf("INT8 error %.4f, %lld of %d half-lanes reduced\n", RelativeError(p.stats),
              static_cast<long long>(p.stats.n_limited), 64 * 1152 / 8);
  EXPECT_LT(RelativeError(p.stats), 0.019);
  EXPECT_LT(p.stats.n_limited, 64 * 1152 / 8 / 200);
}

// Evenly spread weights fill every lane: the scale must give way, not the weights.
TEST(Packed, Int8ErrorOfUniformWeightsStaysSmall) {
  std::mt19937 bits(9);
  std::vector<float> w(32 * 1152);
  for (float& f : w) f = static_cast<float>(bits() / 4294967296.0 - 0.5);
  const Packed p(DType::kInt8Packed, w, 32, 1152);
  std::printf("INT8 error of uniform weights %.4f\n", RelativeError(p.stats));
  EXPECT_LT(RelativeError(p.stats), 0.015);
}

TEST(Packed, PromisesHoldForHostileWeights) {
  std::vector<float> w(16 * 64, 1.0f);  // every lane wants 8 * 63
  for (size_t i = 0; i < w.size(); i += 3) w[i] = -1.0f;
  for (size_t i = 64; i < 128; ++i) w[i] = 0.0f;
  for (size_t i = 128; i < 192; ++i) w[i] = 1e-40f;
  for (size_t i = 192; i < 256; ++i) w[i] = i % 2 == 0 ? 3e38f : -3e38f;
  w[300] = 3e38f;
  for (const DType dtype : {DType::kInt8Packed, DType::kInt4Packed}) {
    const Packed p(dtype, w, 16, 64);
    EXPECT_TRUE(CheckPacked(p.view).has_value());
    for (const float f : p.Decoded()) EXPECT_TRUE(std::isfinite(f));
  }
  EXPECT_GT(Packed(DType::kInt8Packed, w, 16, 64).stats.n_limited, 0);
}

TEST(Packed, NumbersThatAreNoneAreRefusedWithTheirPlace) {
  std::vector<float> w(16 * 64, 1.0f);
  w[2 * 64 + 9] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> panel(static_cast<size_t>(PanelBytes(DType::kInt4Packed, 64)));
  EncodeStats stats;
  const Status s = EncodePanel(DType::kInt4Packed, w.data(), 64, 16, 64, Search::kNearest, panel.data(), stats);
  ASSERT_FALSE(s.has_value());
  EXPECT_NE(s.error().message.find("row 2, column 9"), std::string::npos);
}

TEST(Packed, CheckFindsBrokenPromises) {
  Packed p(DType::kInt8Packed, Normal(16 * 32, 7), 16, 32);
  auto* bytes = reinterpret_cast<uint8_t*>(p.bytes.data());
  const uint8_t kept = bytes[64 + 7];
  bytes[64 + 7] = 200;
  EXPECT_FALSE(CheckPacked(p.view).has_value());
  bytes[64 + 7] = kept;
  for (int k = 0; k < 16; k += 4) bytes[64 + k * 16] = bytes[64 + k * 16 + 1] = 127;  // row 0: 8 * 63
  EXPECT_FALSE(CheckPacked(p.view).has_value());

  Packed q(DType::kInt4Packed, Normal(16 * 128, 8), 16, 128);
  EXPECT_TRUE(CheckPacked(q.view).has_value());
  q.bytes[64 + 3] = std::byte{0x80};
  EXPECT_FALSE(CheckPacked(q.view).has_value());
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(p.bytes.data(), &infinite, 4);
  EXPECT_FALSE(CheckPacked(p.view).has_value());
}

}  // namespace
}  // namespace minicpm::quant
