// Tests of EncodeInt8Row: error within half a step, signs, extremes, and rows that are not numbers.
#include "quant/int8_row.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace minicpm::quant {
namespace {

TEST(Int8Row, ErrorIsHalfAStep) {
  std::vector<float> x;
  for (int i = 0; i < 97; ++i) x.push_back(std::sin(static_cast<float>(i * i)) * 3.0f);
  x[40] = -5.0f;
  std::vector<int8_t> q(x.size());
  const float scale = EncodeInt8Row(x, q.data());
  EXPECT_FLOAT_EQ(scale, 5.0f / 127.0f);
  EXPECT_EQ(q[40], -127);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(static_cast<float>(q[i]) * scale, x[i], scale * 0.5001f);
}

TEST(Int8Row, NothingToScale) {
  int8_t q[3] = {1, 2, 3};
  EXPECT_EQ(EncodeInt8Row(std::vector<float>{0.0f, -0.0f, 1e-40f}, q), 0.0f);
  for (const int8_t v : q) EXPECT_EQ(v, 0);
  EXPECT_EQ(EncodeInt8Row({}, q), 0.0f);
}

TEST(Int8Row, WhatIsNotFiniteStaysVisible) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    int8_t q[2] = {1, 1};
    EXPECT_TRUE(std::isnan(EncodeInt8Row(std::vector<float>{1.0f, -bad}, q)));
    EXPECT_EQ(q[0], 0);
    EXPECT_EQ(q[1], 0);
  }
  int8_t q[2];
  const float most = std::numeric_limits<float>::max();
  EXPECT_FLOAT_EQ(EncodeInt8Row(std::vector<float>{most, -most}, q), most / 127.0f);
  EXPECT_EQ(q[1], -127);
}

}  // namespace
}  // namespace minicpm::quant
