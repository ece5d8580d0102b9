// Tests of placeholders: order, newlines between rows of slices, image ids.
#include "engine/prompt_builder.h"

#include "gtest/gtest.h"

namespace minicpm {
namespace {

SlicePlan Plan(int cols, int rows) {
  SlicePlan plan;
  plan.overview = {448, 448};
  plan.cols = cols;
  plan.rows = rows;
  plan.slice = {448, 448};
  return plan;
}

TEST(Placeholder, OverviewOnly) {
  EXPECT_EQ(PlaceholderText(Plan(0, 0), {2, 0}, true, 3), "<image_id>3</image_id><image><unk><unk></image>");
}

TEST(Placeholder, RowsAreJoinedByOneNewlineAndNothingFollowsTheLast) {
  const std::string slice = "<slice><unk></slice>";
  EXPECT_EQ(PlaceholderText(Plan(3, 2), {1, 1}, false, 0),
            "<image><unk></image>" + slice + slice + slice + "\n" + slice + slice + slice);
}

TEST(Placeholder, TwoDigitIds) {
  EXPECT_EQ(PlaceholderText(Plan(0, 0), {1, 0}, true, 12), "<image_id>12</image_id><image><unk></image>");
}

// V 4.6: a view's tokens follow from its size, and the fill token is another.
TEST(Placeholder, ViewsOfDifferentLength) {
  EXPECT_EQ(PlaceholderText(Plan(2, 1), {2, 1, "<|image_pad|>"}, false, 0),
            "<image><|image_pad|><|image_pad|></image><slice><|image_pad|></slice><slice><|image_pad|></slice>");
  ModelConfig config;
  SliceConfig slicing;
  slicing.divisor = 56;
  EXPECT_EQ(RowsOfView(config, slicing, {448, 448}), 64);
  config.merger.emplace();
  EXPECT_EQ(RowsOfView(config, slicing, {504, 392}), 63);
  slicing.divisor = 28;
  EXPECT_EQ(RowsOfView(config, slicing, {532, 364}), 247);
}

}  // namespace
}  // namespace minicpm
