// Slice plans, views, patches and position rows against committed vectors of the reference and the published examples.
#include "image/slicing.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "image/test_pictures.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

const char* const kPreprocess = MINICPM_SOURCE_DIR "/tests/data/preprocess/";

TEST(PlanSlices, CommittedVectors) {
  const auto rows = ReadCsv(std::string(kPreprocess) + "slice_plans.csv");
  ASSERT_GE(rows.size(), 10000u);
  for (const auto& row : rows) {
    std::vector<int> v;
    for (const std::string& field : row) v.push_back(std::stoi(field));
    const SlicePlan plan = PlanSlices({v.at(0), v.at(1)}, SliceConfig{});
    const std::vector<int> found = {v[0],      v[1],      plan.overview.width, plan.overview.height,
                                    plan.cols, plan.rows, plan.slice.width,    plan.slice.height};
    ASSERT_EQ(found, v);
  }
}

struct Example {
  Size image;
  int cols, rows;
  Size overview, slice;        // divisor 14
  Size overview_56, slice_56;  // divisor 56
};

TEST(PlanSlices, Examples) {
  constexpr Example kExamples[] = {
      {{448, 448}, 0, 0, {448, 448}, {}, {448, 448}, {}},
      {{300, 200}, 0, 0, {546, 364}, {}, {560, 392}, {}},
      {{640, 480}, 2, 1, {518, 392}, {364, 546}, {504, 392}, {392, 560}},
      {{1280, 720}, 3, 2, {602, 336}, {490, 406}, {616, 336}, {504, 392}},
      {{1920, 1080}, 4, 2, {602, 336}, {420, 476}, {616, 336}, {448, 448}},
      {{1344, 1344}, 3, 3, {448, 448}, {448, 448}, {448, 448}, {448, 448}},
      {{800, 3000}, 2, 4, {224, 868}, {322, 616}, {224, 840}, {336, 616}},
      {{449, 448}, 2, 1, {448, 448}, {322, 630}, {448, 448}, {336, 616}},
      {{100, 1000}, 0, 0, {140, 1414}, {}, {168, 1400}, {}},
  };
  for (const Example& e : kExamples) {
    SliceConfig config;
    const SlicePlan plan = PlanSlices(e.image, config);
    EXPECT_EQ(plan.cols, e.cols) << e.image.width;
    EXPECT_EQ(plan.rows, e.rows) << e.image.width;
    EXPECT_EQ(plan.overview, e.overview) << e.image.width;
    EXPECT_EQ(plan.slice, e.slice) << e.image.width;
    config.divisor = 56;
    EXPECT_EQ(PlanSlices(e.image, config).overview, e.overview_56) << e.image.width;
    EXPECT_EQ(PlanSlices(e.image, config).slice, e.slice_56) << e.image.width;
  }
}

TEST(PlanSlices, MaxSlices) {
  SliceConfig config;
  config.max_slices = 1;
  const SlicePlan one = PlanSlices({4000, 3000}, config);
  EXPECT_EQ(one.n_views(), 1);
  EXPECT_EQ(one.overview, (Size{518, 392}));  // as for a picture that needs no slices
  for (int max = 2; max <= 12; ++max) {
    config.max_slices = max;
    EXPECT_LE(PlanSlices({4000, 3000}, config).cols * PlanSlices({4000, 3000}, config).rows, max);
  }
  config.slice_mode = false;
  EXPECT_EQ(PlanSlices({4000, 3000}, config).overview, (Size{4000, 3000}));
}

TEST(PlanSlices, ExtremeShapesStayWithinInt) {
  for (const Size size : {Size{1, 1}, Size{1, 178'956'970}, Size{178'956'970, 1}, Size{2'147'483'647, 2'147'483'647},
                          Size{200'704, 1}, Size{1, 200'705}}) {
    const SlicePlan plan = PlanSlices(size, SliceConfig{});
    EXPECT_GE(plan.overview.width, 14);
    EXPECT_GE(plan.overview.height, 14);
    EXPECT_EQ(plan.overview.width % 14, 0);
    EXPECT_EQ(plan.overview.height % 14, 0);
    EXPECT_LE(plan.cols * plan.rows, 9);
  }
}

TEST(SliceConfig, IsCheckedFieldByField) {
  EXPECT_TRUE(CheckSliceConfig(SliceConfig{}).has_value());
  SliceConfig config;
  config.max_slices = 0;
  EXPECT_EQ(CheckSliceConfig(config).error().message, "max_slice_nums must be between 1 and 1024, found 0");
  config = {};
  config.scale_resolution = -448;
  EXPECT_THAT(CheckSliceConfig(config).error().message, HasSubstr("scale_resolution"));
  config = {};
  config.patch = 2000;
  EXPECT_THAT(CheckSliceConfig(config).error().message, HasSubstr("patch_size"));
  config = {};
  config.divisor = 15;
  EXPECT_THAT(CheckSliceConfig(config).error().message, HasSubstr("multiple of patch_size 14, found 15"));
}

TEST(CutViews, OverviewThenSlicesRowByRow) {
  const SliceConfig config;
  const Image image = PatternPicture(800, 700);
  const SlicePlan plan = PlanSlices({800, 700}, config);
  ASSERT_GE(plan.cols, 2);
  const std::vector<Image> views = CutViews(image, plan, config).value();
  ASSERT_EQ(views.size(), static_cast<size_t>(plan.n_views()));
  EXPECT_EQ(views[0].rgb, ResizeBicubic(image, plan.overview.width, plan.overview.height).rgb);
  const Image refined = ResizeBicubic(image, plan.cols * plan.slice.width, plan.rows * plan.slice.height);
  for (int y = 0; y < refined.height; ++y) {
    for (int x = 0; x < refined.width; ++x) {
      const Image& cell = views[1 + y / plan.slice.height * plan.cols + x / plan.slice.width];
      const size_t at = size_t{3} * (y % plan.slice.height * cell.width + x % plan.slice.width);
      ASSERT_EQ(cell.rgb[at], refined.rgb[size_t{3} * (y * refined.width + x)]) << x << ' ' << y;
    }
  }
}

TEST(CutViews, WithoutSlicingThePictureGoesInUnchanged) {
  SliceConfig config;
  config.slice_mode = false;
  const Image image = PatternPicture(28, 42);
  const SlicePlan plan = PlanSlices({28, 42}, config);
  EXPECT_EQ(CutViews(image, plan, config).value().at(0).rgb, image.rgb);
  const auto views = CutViews(PatternPicture(29, 42), PlanSlices({29, 42}, config), config);
  ASSERT_FALSE(views.has_value());
  EXPECT_EQ(views.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(views.error().message, HasSubstr("multiples of 14, found 29 x 42"));
}

TEST(FillPatches, ChannelThenRowThenColumn) {
  const int patch = 14;
  const Image view = PatternPicture(42, 28);
  const PatchGrid grid = GridOf({42, 28}, patch);
  ASSERT_EQ(grid.rows, 2);
  ASSERT_EQ(grid.cols, 3);
  const float mean[3] = {0.5F, 0.25F, 0.125F};
  const float stddev[3] = {0.5F, 2.0F, 0.75F};
  constexpr int kStride = 3 * 14 * 14 + 5;
  std::vector<float> out(6 * kStride, -9.0F);
  FillPatches(view, patch, mean, stddev, Matrix(out.data(), 6, 3 * 14 * 14, kStride));
  for (int k = 0; k < 6; ++k) {
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < patch; ++y) {
        for (int x = 0; x < patch; ++x) {
          const int px = k % 3 * patch + x;
          const int py = k / 3 * patch + y;
          const float v = static_cast<float>(view.rgb[3 * (py * 42 + px) + c]);
          EXPECT_EQ(out[k * kStride + (c * patch + y) * patch + x], (v / 255.0F - mean[c]) / stddev[c]);
        }
      }
    }
    for (int i = 3 * 14 * 14; i < kStride; ++i) EXPECT_EQ(out[k * kStride + i], -9.0F);
  }
}

TEST(FillPositionIds, CommittedVectors) {
  const auto rows = ReadCsv(std::string(kPreprocess) + "position_buckets.csv");
  ASSERT_GE(rows.size(), 9000u);
  for (const auto& row : rows) {
    const int n = std::stoi(row.at(0));
    std::vector<int32_t> ids(n);
    FillPositionIds({.rows = n, .cols = 1}, 70, ids.data());
    EXPECT_EQ(ids[std::stoi(row.at(1))], 70 * std::stoi(row.at(2))) << n << ' ' << row[1];
    FillPositionIds({.rows = 1, .cols = n}, 70, ids.data());
    ASSERT_EQ(ids[std::stoi(row.at(1))], std::stoi(row.at(2))) << n << ' ' << row[1];
  }
}

// Where torch's float arange falls one row short of floor(70 * i / n).
TEST(FillPositionIds, OneLessAtTheTies) {
  const std::map<int, std::vector<int>> less = {{25, {5, 10, 15, 20}},
                                                {49, {7, 14, 35, 42}},
                                                {50, {5, 10, 15, 20, 30, 40}},
                                                {55, {11, 22, 33, 44}},
                                                {58, {29}},
                                                {77, {55}},
                                                {82, {41}},
                                                {86, {43}},
                                                {94, {47}},
                                                {98, {7, 14, 35, 42, 56, 70, 84}},
                                                {100, {10, 20, 30, 40, 80}},
                                                {110, {11, 22, 33, 44, 66, 88}},
                                                {115, {23, 46, 69, 92}},
                                                {135, {27, 54}}};
  for (int n = 1; n <= 140; ++n) {
    std::vector<int32_t> ids(n);
    FillPositionIds({.rows = 1, .cols = n}, 70, ids.data());
    std::vector<int> found;
    for (int i = 0; i < n; ++i) {
      if (ids[i] != 70 * i / n) {
        EXPECT_EQ(ids[i], 70 * i / n - 1) << n;
        found.push_back(i);
      }
    }
    EXPECT_EQ(found, less.contains(n) ? less.at(n) : std::vector<int>{}) << n;
  }
}

TEST(FillPositionIds, RowsThenColumns) {
  std::vector<int32_t> ids(2 * 3);
  FillPositionIds({.rows = 2, .cols = 3}, 70, ids.data());
  EXPECT_THAT(ids, ::testing::ElementsAre(0, 23, 46, 35 * 70, 35 * 70 + 23, 35 * 70 + 46));
}

}  // namespace
}  // namespace minicpm
