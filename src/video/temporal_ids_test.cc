// Frame choice and temporal ids against the reference's committed results and facts that can be counted by hand.
#include "video/temporal_ids.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/picture.h"

namespace minicpm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<std::string>> Rows(const std::string& file) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream stream(std::string(MINICPM_SOURCE_DIR "/tests/data/preprocess/") + file);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::vector<std::string> row;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    rows.push_back(row);
  }
  return rows;
}

template <class T>
uint32_t Checksum(const std::vector<T>& values) {
  std::vector<uint8_t> bytes;
  for (const T v : values) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<uint8_t>(static_cast<uint32_t>(v) >> (8 * i)));
  }
  return Crc32(bytes);
}

TEST(TemporalIdOfTick, IsOneLessForSomeIndices) {
  std::vector<int64_t> less;
  for (int64_t i = 0; i < 20000; ++i) {
    const int32_t id = TemporalIdOfTick(i);
    if (id == i) continue;
    ASSERT_EQ(id, i - 1);
    less.push_back(i);
  }
  EXPECT_EQ(less.size(), 813u);
  less.resize(10);
  EXPECT_THAT(less, ElementsAre(43, 81, 86, 91, 162, 167, 172, 177, 182, 187));
}

TEST(TemporalIdOfTick, CommittedVectors) {
  const auto rows = Rows("temporal_ids.csv");
  ASSERT_GE(rows.size(), 813u);
  size_t next = 0;
  for (int64_t i = 0; i <= 20000; ++i) {
    const bool listed = next < rows.size() && std::stoll(rows[next][0]) == i;
    EXPECT_EQ(TemporalIdOfTick(i), listed ? std::stoi(rows[next][1]) : i) << i;
    next += listed ? 1 : 0;
  }
  EXPECT_EQ(next, rows.size());
}

TEST(PlanFrames, CommittedVectors) {
  const auto rows = Rows("video_plans.csv");
  ASSERT_GE(rows.size(), 300u);
  for (const auto& row : rows) {
    const int64_t n_frames = std::stoll(row.at(0));
    const double fps = std::stod(row.at(1));
    const double choose_fps = std::stod(row.at(2));
    const std::string what = row[0] + " frames at " + row[1] + ", " + row[2] + " a second, packing " + row[3];
    if (choose_fps == 0) {  // every frame
      std::vector<int64_t> frames(n_frames);
      std::iota(frames.begin(), frames.end(), int64_t{0});
      EXPECT_EQ(Checksum(TemporalIds(frames, n_frames, fps).value()), std::stoul(row.at(7))) << what;
      continue;
    }
    const FrameRule rule{.choose_fps = choose_fps, .force_packing = std::stoi(row.at(3))};
    const FramePlan plan = PlanFrames(n_frames, fps, rule).value();
    EXPECT_EQ(plan.packing, std::stoi(row.at(4))) << what;
    EXPECT_EQ(plan.frames.size(), std::stoul(row.at(5))) << what;
    EXPECT_EQ(Checksum(plan.frames), std::stoul(row.at(6))) << what;
    EXPECT_EQ(Checksum(plan.temporal_ids), std::stoul(row.at(7))) << what;
  }
}

TEST(PlanFrames, PackingGrowsWithTheLength) {
  const auto plan = [](int64_t seconds) { return PlanFrames(25 * seconds, 25.0).value(); };
  EXPECT_EQ(plan(60).packing, 1);  // 3 * 60 = 180
  EXPECT_EQ(plan(60).frames.size(), 180u);
  EXPECT_EQ(plan(61).packing, 2);
  EXPECT_EQ(plan(61).frames.size(), 183u);
  EXPECT_EQ(plan(61).n_groups(), 92);
  EXPECT_EQ(plan(61).Group(91).size(), 1u);
  EXPECT_EQ(plan(61).Group(0).size(), 2u);
  EXPECT_EQ(plan(180).packing, 3);
  EXPECT_EQ(plan(180).frames.size(), 540u);
  EXPECT_EQ(plan(3600).packing, 3);
  EXPECT_EQ(plan(3600).frames.size(), 540u);
  EXPECT_EQ(plan(3600).n_groups(), 180);
}

TEST(PlanFrames, FramesAreInTheMiddleOfTheirShare) {
  const FramePlan plan = PlanFrames(100, 25.0).value();  // 4 s: 12 frames, 8.33 apart
  EXPECT_THAT(plan.frames, ElementsAre(4, 12, 20, 29, 37, 45, 54, 62, 70, 79, 87, 95));
  EXPECT_THAT(plan.temporal_ids, ElementsAre(2, 5, 8, 12, 15, 18, 22, 25, 28, 32, 35, 38));
  EXPECT_EQ(PlanFrames(1, 25.0).value().frames.size(), 1u);  // too short for one: still one
}

TEST(PlanFrames, RefusesWhatNoVideoCanBe) {
  EXPECT_THAT(PlanFrames(0, 25).error().message, HasSubstr("at least one frame, found 0"));
  EXPECT_EQ(PlanFrames(10, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanFrames(10, -1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanFrames(10, std::nan("")).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanFrames(10, HUGE_VAL).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanFrames(std::numeric_limits<int64_t>::max(), 25).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanFrames(10, 25, {.choose_fps = 0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanFrames(10, 25, {.max_packing = 7}).error().code, ErrorCode::kInvalidArgument);
  const std::vector<int64_t> outside = {10};
  EXPECT_THAT(TemporalIds(outside, 10, 25).error().message, HasSubstr("frame 10 is not one of the video's 10"));
}

}  // namespace
}  // namespace minicpm
