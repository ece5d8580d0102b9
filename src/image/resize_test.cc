// Resizing: identical to Pillow on the committed vectors, whichever kernels run; awkward sizes; the kernels against
// each other. Not for slicing: slicing_test.cc.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "image/image.h"
#include "image/resize_kernels.h"
#include "image/test_pictures.h"

namespace minicpm {
namespace {

// Every implementation this CPU can run.
std::vector<const ResizeKernels*> Roster() {
  std::vector<const ResizeKernels*> roster = {&kResizeKernelsScalar};
  if (&BestResizeKernels() != roster[0]) roster.push_back(&BestResizeKernels());
  return roster;
}

TEST(Resize, EqualsPillow) {
  const auto rows = ReadCsv(MINICPM_SOURCE_DIR "/tests/data/preprocess/resize_crc.csv");
  ASSERT_GE(rows.size(), 300u);
  for (const ResizeKernels* kernels : Roster()) {
    for (const auto& row : rows) {
      const Image source = PatternPicture(std::stoi(row.at(0)), std::stoi(row.at(1)));
      const int width = std::stoi(row.at(2));
      const int height = std::stoi(row.at(3));
      const Image image = ResizeWith(*kernels, source, width, height);
      EXPECT_EQ(image.width, width);
      EXPECT_EQ(image.height, height);
      EXPECT_EQ(Crc32(image.rgb), static_cast<uint32_t>(std::stoul(row.at(4))))
          << kernels->isa << ' ' << row[0] << " x " << row[1] << " to " << width << " x " << height;
    }
  }
}

TEST(Resize, EqualsTorchvision) {
  const auto rows = ReadCsv(MINICPM_SOURCE_DIR "/tests/data/preprocess/resize_torchvision_crc.csv");
  ASSERT_GE(rows.size(), 150u);
  int differ = 0;
  for (const ResizeKernels* kernels : Roster()) {
    for (const auto& row : rows) {
      const Image source = PatternPicture(std::stoi(row.at(0)), std::stoi(row.at(1)));
      const int width = std::stoi(row.at(2));
      const int height = std::stoi(row.at(3));
      const Image image = ResizeWith(*kernels, source, width, height, ResizeRounding::kTorchvision);
      EXPECT_EQ(Crc32(image.rgb), static_cast<uint32_t>(std::stoul(row.at(4))))
          << kernels->isa << ' ' << row[0] << " x " << row[1] << " to " << width << " x " << height;
      differ += ResizeWith(*kernels, source, width, height).rgb != image.rgb ? 1 : 0;
    }
  }
  EXPECT_GT(differ, 50);  // the two roundings are not the same
}

TEST(Resize, KernelsAgreeOnEverySmallSize) {
  const std::vector<const ResizeKernels*> roster = Roster();
  for (int w = 1; w <= 24; ++w) {
    for (int h = 1; h <= 10; ++h) {
      const Image source = PatternPicture(w, h);
      for (const int new_w : {1, 2, 3, 7, 16, 33}) {
        for (const int new_h : {1, 2, 5, 9, 20}) {
          const Image truth = ResizeWith(kResizeKernelsScalar, source, new_w, new_h);
          for (const ResizeKernels* kernels : roster) {
            ASSERT_EQ(ResizeWith(*kernels, source, new_w, new_h).rgb, truth.rgb)
                << kernels->isa << ' ' << w << " x " << h << " to " << new_w << " x " << new_h;
          }
        }
      }
    }
  }
}

TEST(Resize, SameSizeIsACopy) {
  const Image source = PatternPicture(19, 23);
  EXPECT_EQ(ResizeBicubic(source, 19, 23).rgb, source.rgb);
}

TEST(Resize, FlatPicturesStayFlat) {
  for (const int value : {0, 1, 127, 254, 255}) {
    Image source{.width = 61, .height = 47, .rgb = std::vector<uint8_t>(size_t{3} * 61 * 47)};
    std::fill(source.rgb.begin(), source.rgb.end(), static_cast<uint8_t>(value));
    for (const auto& [w, h] : {std::pair{14, 14}, {300, 5}, {448, 448}}) {
      const Image image = ResizeBicubic(source, w, h);
      for (const uint8_t v : image.rgb) ASSERT_EQ(v, value);
    }
  }
}

// Overshoot of the cubic must be clipped, not wrapped.
TEST(Resize, EdgesAreClippedAtBlackAndWhite) {
  Image source{.width = 8, .height = 1, .rgb = {}};
  for (int x = 0; x < 8; ++x) source.rgb.insert(source.rgb.end(), 3, x < 4 ? 0 : 255);
  for (const ResizeKernels* kernels : Roster()) {
    const Image image = ResizeWith(*kernels, source, 64, 3);
    for (int x = 1; x < 64; ++x) EXPECT_GE(image.rgb[3 * x], image.rgb[3 * x - 3] - 0) << x;
    EXPECT_EQ(image.rgb[0], 0);
    EXPECT_EQ(image.rgb.back(), 255);
  }
}

// Needs far more weights than are prepared at a time, and far more than the picture has bytes if done naively.
TEST(Resize, VeryLongAndThin) {
  const Image wide = PatternPicture(700'000, 1);
  Image tall = wide;
  std::swap(tall.width, tall.height);
  const Image from_wide = ResizeBicubic(wide, 14, 1);
  const Image from_tall = ResizeBicubic(tall, 1, 14);
  EXPECT_EQ(from_wide.rgb, from_tall.rgb);
  for (const uint8_t v : from_wide.rgb) EXPECT_NEAR(v, 127, 2);
  for (const ResizeKernels* kernels : Roster()) {
    EXPECT_EQ(ResizeWith(*kernels, wide, 14, 1).rgb, from_wide.rgb);
    EXPECT_EQ(ResizeWith(*kernels, tall, 1, 14).rgb, from_wide.rgb);
    EXPECT_EQ(ResizeWith(*kernels, wide, 90'000, 2).rgb, ResizeWith(kResizeKernelsScalar, wide, 90'000, 2).rgb);
  }
}

}  // namespace
}  // namespace minicpm
