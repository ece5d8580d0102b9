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
  EXPECT_EQ(PlaceholderText(Plan(0, 0), 2, true, 3), "<image_id>3</image_id><image><unk><unk></image>");
}

TEST(Placeholder, RowsAreJoinedByOneNewlineAndNothingFollowsTheLast) {
  const std::string slice = "<slice><unk></slice>";
  EXPECT_EQ(PlaceholderText(Plan(3, 2), 1, false, 0),
            "<image><unk></image>" + slice + slice + slice + "\n" + slice + slice + slice);
}

TEST(Placeholder, TwoDigitIds) {
  EXPECT_EQ(PlaceholderText(Plan(0, 0), 1, true, 12), "<image_id>12</image_id><image><unk></image>");
}

}  // namespace
}  // namespace minicpm
