// Frame choice of all families and composites against the reference's committed results, and facts counted by hand.
#include "video/frame_choice.h"

#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/picture.h"
#include "video/composite.h"

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

// As checksum() of reference/video_choice.py.
std::string Checksum(const std::vector<VideoGroup>& groups) {
  std::vector<uint8_t> bytes;
  const auto add = [&](int64_t v) {
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(v) >> (8 * i)));
  };
  for (const VideoGroup& group : groups) {
    add(static_cast<int64_t>(group.frames.size()));
    for (const int64_t frame : group.frames) add(frame);
    for (const int32_t id : group.temporal_ids) add(id);
    add(group.sound_begin);
    add(group.sound_end);
  }
  return std::to_string(Crc32(bytes));
}

TEST(ChooseFrames, CommittedVectors) {
  const auto rows = Rows("video_choice.csv");
  ASSERT_GE(rows.size(), 2100u);
  int n_packed = 0;
  for (const auto& row : rows) {
    const int64_t n_frames = std::stoll(row.at(0));
    const double fps = std::stod(row.at(1));
    const std::string what = row[0] + " frames at " + row[1];
    ASSERT_EQ(Checksum(ChooseFrames(n_frames, fps, VideoRule::kEverySecond, {}).value()), row.at(2)) << what;
    if (!row.at(3).empty()) {
      ASSERT_EQ(Checksum(ChooseFrames(n_frames, fps, VideoRule::kPacked, {}).value()), row.at(3)) << what;
      ++n_packed;
    }
    ASSERT_EQ(Checksum(ChooseFrames(n_frames, fps, VideoRule::kWithSound, {}).value()), row.at(4)) << what;
    VideoChoiceOptions stacked;
    stacked.stack = std::stoi(row.at(5));
    ASSERT_EQ(Checksum(ChooseFrames(n_frames, fps, VideoRule::kWithSound, stacked).value()), row.at(6)) << what;
  }
  EXPECT_GE(n_packed, 2000);
}

std::vector<int64_t> Frames(const std::vector<VideoGroup>& groups) {
  std::vector<int64_t> frames;
  for (const VideoGroup& group : groups) frames.insert(frames.end(), group.frames.begin(), group.frames.end());
  return frames;
}

TEST(ChooseFrames, EverySecondRoundsTheRateHalfToEven) {
  EXPECT_THAT(Frames(ChooseFrames(11, 2.5, VideoRule::kEverySecond, {}).value()), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(Frames(ChooseFrames(11, 3.5, VideoRule::kEverySecond, {}).value()), ElementsAre(0, 4, 8));
  EXPECT_THAT(Frames(ChooseFrames(3, 0.4, VideoRule::kEverySecond, {}).value()), ElementsAre(0, 1, 2));
  const auto thinned = Frames(ChooseFrames(65 * 30, 30, VideoRule::kEverySecond, {}).value());
  ASSERT_EQ(thinned.size(), 64u);
  EXPECT_EQ(thinned.front(), 0);
  EXPECT_EQ(thinned.back(), 64 * 30);
}

TEST(ChooseFrames, SoundGoesToTheNextPictureAndTheLastToTheEnd) {
  const auto groups = ChooseFrames(62, 25, VideoRule::kWithSound, {}).value();  // 2.48 s
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_THAT(Frames(groups), ElementsAre(0, 25, 50));
  EXPECT_EQ(groups[0].sound_begin, 0);
  EXPECT_EQ(groups[0].sound_end, 16000);
  EXPECT_EQ(groups[2].sound_begin, 32000);
  EXPECT_EQ(groups[2].sound_end, 39680);
  EXPECT_TRUE(groups[0].temporal_ids.empty());
}

TEST(ChooseFrames, SixtyFourSecondsAreTheLastWithOnePerSecond) {
  EXPECT_EQ(ChooseFrames(640, 10, VideoRule::kWithSound, {}).value().back().frames[0], 630);
  const auto longer = ChooseFrames(641, 10, VideoRule::kWithSound, {}).value();
  EXPECT_EQ(longer.size(), 64u);
  EXPECT_EQ(longer[1].frames[0], 10);
  EXPECT_EQ(longer.back().frames[0], 639);
}

TEST(ChooseFrames, StackingAddsOneCompositePerSecond) {
  VideoChoiceOptions options;
  options.stack = 3;
  const auto groups = ChooseFrames(75, 30, VideoRule::kWithSound, options).value();  // 2.5 s
  ASSERT_EQ(groups.size(), 6u);
  EXPECT_FALSE(groups[0].composite);
  EXPECT_TRUE(groups[1].composite);
  EXPECT_THAT(groups[1].frames, ElementsAre(10, 20));
  EXPECT_EQ(groups[1].sound_end, 0);
  EXPECT_THAT(groups[5].frames, ElementsAre(70));  // 2 2/3 s is past the end
}

TEST(ChooseFrames, PackedGroupsShareTheirTokens) {
  VideoChoiceOptions options;
  options.packing = 6;
  const auto groups = ChooseFrames(100, 25, VideoRule::kPacked, options).value();  // 4 s: 12 frames
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].frames, ElementsAre(4, 12, 20, 29, 37, 45));
  EXPECT_THAT(groups[1].temporal_ids, ElementsAre(22, 25, 28, 32, 35, 38));
  options = {};
  options.fps = 1;
  EXPECT_EQ(ChooseFrames(100, 25, VideoRule::kPacked, options).value().size(), 4u);
}

TEST(ChooseFrames, RefusesWhatMakesNoSense) {
  const auto error = [](int64_t n, double fps, VideoRule rule, VideoChoiceOptions options) {
    return ChooseFrames(n, fps, rule, options).error();
  };
  for (const VideoRule rule : {VideoRule::kEverySecond, VideoRule::kPacked, VideoRule::kWithSound}) {
    EXPECT_THAT(error(0, 25, rule, {}).message, HasSubstr("at least one frame, found 0"));
    EXPECT_EQ(error(10, 0, rule, {}).code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error(10, std::numeric_limits<double>::quiet_NaN(), rule, {}).code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error(std::numeric_limits<int64_t>::max(), 25, rule, {}).code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error(10, 25, rule, {.max_frames = 0}).message, HasSubstr("found 0"));
  }
  EXPECT_THAT(error(10, 25, VideoRule::kPacked, {.packing = 7}).message, HasSubstr("1 to 6, found 7"));
  EXPECT_THAT(error(10, 25, VideoRule::kPacked, {.fps = -1}).message, HasSubstr("above 0"));
  EXPECT_THAT(error(10, 25, VideoRule::kPacked, {.stack = 2}).message, HasSubstr("does not stack"));
  EXPECT_THAT(error(10, 25, VideoRule::kEverySecond, {.fps = 2}).message, HasSubstr("one frame per second"));
  EXPECT_THAT(error(10, 25, VideoRule::kWithSound, {.packing = 2}).message, HasSubstr("does not pack"));
  EXPECT_THAT(error(10, 25, VideoRule::kWithSound, {.stack = 17}).message, HasSubstr("1 to 16, found 17"));
}

TEST(Compose, CommittedPictures) {
  const auto rows = Rows("composites.csv");
  ASSERT_GE(rows.size(), 13u);
  for (const auto& row : rows) {
    std::vector<Image> frames;
    bool alike = true;
    for (size_t i = 3; i < row.size(); ++i) {
      const size_t x = row[i].find('x');
      frames.push_back(PatternPicture(std::stoi(row[i].substr(0, x)), std::stoi(row[i].substr(x + 1))));
      alike = alike && row[i] == row[3];
    }
    const Image composite = Compose(frames);
    EXPECT_EQ(std::to_string(composite.width), row[0]) << row[3];
    EXPECT_EQ(std::to_string(composite.height), row[1]) << row[3];
    EXPECT_EQ(std::to_string(Crc32(composite.rgb)), row[2]) << row[3];
    if (!alike) continue;
    const Size size = CompositeSize({frames[0].width, frames[0].height}, static_cast<int>(frames.size()));
    EXPECT_EQ(size, (Size{composite.width, composite.height}));
  }
}

}  // namespace
}  // namespace minicpm
