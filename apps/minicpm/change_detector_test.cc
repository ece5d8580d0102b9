// The measure of change: sizes, places, noise, drift.
#include "change_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace minicpm::cli {
namespace {

Image Plain(int width, int height, uint8_t value) {
  return {.width = width, .height = height, .rgb = std::vector<uint8_t>(size_t{3} * width * height, value)};
}

void Fill(Image& image, int x, int y, int width, int height, uint8_t value) {
  for (int row = y; row < y + height; ++row) {
    std::fill_n(image.rgb.begin() + 3 * (static_cast<ptrdiff_t>(row) * image.width + x), 3 * width, value);
  }
}

double Change(const Image& before, const Image& after) {
  ChangeDetector detector;
  EXPECT_FALSE(detector.Measure(before).has_value());
  detector.Accept();
  return detector.Measure(after).value_or(-1);
}

TEST(ChangeDetector, TheSamePictureHasNotChanged) {
  for (const auto& [width, height] : {std::pair{640, 480}, {1, 1}, {31, 33}, {7, 1000}}) {
    EXPECT_EQ(Change(Plain(width, height, 80), Plain(width, height, 80)), 0);
    EXPECT_EQ(Change(Plain(width, height, 80), Plain(width, height, 200)), 120);
    EXPECT_EQ(Change(Plain(width, height, 255), Plain(width, height, 0)), 255);
  }
}

TEST(ChangeDetector, AnotherSizeIsTheLargestChange) { EXPECT_EQ(Change(Plain(64, 64, 9), Plain(64, 65, 9)), 255); }

TEST(ChangeDetector, AnObjectCountsWithTheShareOfTheCellThatItCovers) {
  const Image before = Plain(640, 480, 100);  // cells of 20 x 15 pixels
  Image after = before;
  Fill(after, 40, 30, 20, 15, 180);
  EXPECT_EQ(Change(before, after), 80);
  after = before;
  Fill(after, 40, 30, 10, 15, 180);
  EXPECT_EQ(Change(before, after), 40);
  after = before;
  Fill(after, 639, 479, 1, 1, 250);
  EXPECT_NEAR(Change(before, after), 150.0 / 300, 1.0 / 256);
}

TEST(ChangeDetector, EveryPixelLiesInACell) {
  const Image before = Plain(45, 37, 0);
  for (int i = 0; i < 45 * 37; ++i) {
    Image after = before;
    Fill(after, i % 45, i / 45, 1, 1, 255);
    EXPECT_GT(Change(before, after), 30) << i;
  }
}

TEST(ChangeDetector, ColoursCountByTheirBrightness) {
  const Image black = Plain(32, 32, 0);
  const std::array<double, 3> weights = {77, 150, 29};
  for (size_t c = 0; c < 3; ++c) {
    Image coloured = black;
    for (size_t i = c; i < coloured.rgb.size(); i += 3) coloured.rgb[i] = 255;
    EXPECT_EQ(Change(black, coloured), 255 * weights[c] / 256);
  }
}

TEST(ChangeDetector, NoiseOfACameraStaysSmall) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(128, 5);
  const auto noisy = [&] {
    Image image = Plain(640, 480, 0);
    for (size_t i = 0; i < image.rgb.size(); i += 3) {
      std::fill_n(image.rgb.begin() + static_cast<ptrdiff_t>(i), 3, static_cast<uint8_t>(noise(random)));
    }
    return image;
  };
  const double change = Change(noisy(), noisy());
  EXPECT_GT(change, 0.7);
  EXPECT_LT(change, 2.2);
}

TEST(ChangeDetector, SlowChangesAddUpUntilTheyAreAccepted) {
  ChangeDetector detector;
  detector.Measure(Plain(64, 64, 100));
  detector.Accept();
  EXPECT_EQ(detector.Measure(Plain(64, 64, 103)), 3);
  EXPECT_EQ(detector.Measure(Plain(64, 64, 106)), 6);
  detector.Accept();
  EXPECT_EQ(detector.Measure(Plain(64, 64, 107)), 1);
}

}  // namespace
}  // namespace minicpm::cli
