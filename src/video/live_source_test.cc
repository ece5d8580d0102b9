// Live sources: newest frame wins, files at their pace, folders that fill, and network streams where the plugin is.
#include "video/live_source.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "os/clock.h"
#include "tests/support/rtsp_stream.h"
#include "tests/support/temp_dir.h"
#include "video/jpeg_encoder.h"
#include "video/video_writer.h"

namespace minicpm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Image Plain(int shade) { return {16, 16, std::vector<uint8_t>(768, static_cast<uint8_t>(shade))}; }

std::string Jpeg(int shade) {
  const auto bytes = EncodeJpeg(Plain(shade), 90).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Y4m(int n_frames, int fps) {
  std::string file = "YUV4MPEG2 W2 H2 F" + std::to_string(fps) + ":1 Cmono\n";
  for (int i = 0; i < n_frames; ++i) file += "FRAME\n" + std::string(4, static_cast<char>(i));
  return file;
}

void SetTime(const std::string& path, int seconds) {
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type(std::chrono::seconds(1'000'000'000 + seconds)));
}

// Waits for a condition that must come; the limit is only there so that a broken build ends.
template <class Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(LiveFile, EveryFrameInOrder) {
  const test::TempDir folder;
  const auto source = OpenLiveSource(folder.Write("a.y4m", Y4m(20, 10)), nullptr, {.every_frame = true}).value();
  EXPECT_DOUBLE_EQ(source->fps(), 10);
  for (int i = 0; i < 20; ++i) {
    const auto frame = source->Next(nullptr).value();
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->number, i);
    EXPECT_DOUBLE_EQ(frame->time_s, i / 10.0);
    EXPECT_EQ(frame->image.rgb[0], i);
    EXPECT_GT(frame->unix_ms, 1'600'000'000'000);
  }
  EXPECT_FALSE(source->Next(nullptr).value().has_value());
  EXPECT_FALSE(source->Next(nullptr).value().has_value());
  EXPECT_EQ(source->n_arrived(), 20);
}

TEST(LiveFile, TheNewestFrameWins) {
  const test::TempDir folder;
  const auto source = OpenLiveSource(folder.Write("a.y4m", Y4m(50, 500)), nullptr, {}).value();
  ASSERT_TRUE(Eventually([&] { return source->n_arrived() == 50; }));
  EXPECT_EQ(source->Next(nullptr).value()->number, 49);
  EXPECT_FALSE(source->Next(nullptr).value().has_value());
}

TEST(LiveFile, KeepsItsPace) {
  const test::TempDir folder;
  const double begin_ms = NowMs();
  const auto source = OpenLiveSource(folder.Write("a.y4m", Y4m(5, 20)), nullptr, {}).value();
  int64_t last = -1;
  while (auto frame = source->Next(nullptr).value()) {
    EXPECT_GT(frame->number, last);
    EXPECT_GE(NowMs() - begin_ms, 1000 * frame->time_s - 1);
    last = frame->number;
  }
  EXPECT_EQ(last, 4);
}

TEST(LiveFile, ABrokenFrameEndsIt) {
  const test::TempDir folder;
  const std::string path = folder.File("a.avi");
  auto writer = OpenVideoWriter(path, {.width = 16, .height = 16, .fps = 10}, nullptr).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer->Write(Plain(50 * i), i / 10.0).has_value());
  ASSERT_TRUE(writer->Finish().has_value());
  std::string bytes = test::ReadFileBytes(path);
  const size_t first = bytes.find("\xff\xd8", bytes.find("movi"));
  bytes[bytes.find("\xff\xd8", first + 2)] = 'x';
  folder.Write("a.avi", bytes);
  const auto source = OpenLiveSource(path, nullptr, {.every_frame = true}).value();
  EXPECT_EQ(source->Next(nullptr).value()->number, 0);
  EXPECT_THAT(source->Next(nullptr).error().message, HasSubstr("frame 1"));
  EXPECT_FALSE(source->Next(nullptr).value().has_value());
}

TEST(LiveFolder, OldestFirstThenItEnds) {
  const test::TempDir folder;
  for (const auto& [name, time] : std::vector<std::pair<std::string, int>>{{"b.jpg", 3}, {"c.jpg", 1}, {"a.jpg", 3}}) {
    SetTime(folder.Write(name, Jpeg(40 * time)), time);
  }
  folder.Write(".hidden.jpg", Jpeg(1));
  folder.Write("d.jpg.part", Jpeg(1));
  std::filesystem::create_directory(folder.File("sub.jpg"));
  const auto source =
      OpenLiveSource(folder.path(), nullptr, {.every_frame = true, .poll_s = 0.01, .follow = false}).value();
  std::vector<std::string> names;
  std::vector<double> times;
  while (auto frame = source->Next(nullptr).value()) {
    EXPECT_EQ(frame->number, static_cast<int64_t>(names.size()));
    names.push_back(frame->name);
    times.push_back(frame->time_s);
  }
  EXPECT_THAT(names, ElementsAre("c.jpg", "a.jpg", "b.jpg"));
  EXPECT_THAT(times, ElementsAre(0, 2, 2));
  EXPECT_TRUE(source->TakeWarnings().empty());
}

TEST(LiveFolder, HalfAPictureIsTriedAgain) {
  const test::TempDir folder;
  const std::string whole = Jpeg(200);
  folder.Write("half.jpg", whole.substr(0, whole.size() / 2));
  const auto source = OpenLiveSource(folder.path(), nullptr, {.every_frame = true, .poll_s = 0.01}).value();
  folder.Write("half.jpg", whole);
  const auto frame = source->Next(nullptr).value();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->name, "half.jpg");
  EXPECT_NEAR(frame->image.rgb[0], 200, 1);
  // A file written once more is another picture.
  folder.Write("half.jpg", whole + "x");
  EXPECT_EQ(source->Next(nullptr).value()->number, 1);
}

TEST(LiveFolder, WhatStaysBrokenIsNamedAndPassedOver) {
  const test::TempDir folder;
  const std::string whole = Jpeg(200);
  SetTime(folder.Write("broken.jpg", whole.substr(0, whole.size() / 2)), 1);
  SetTime(folder.Write("good.jpg", whole), 2);
  SetTime(folder.Write("notes.txt", "no picture"), 3);
  const auto source =
      OpenLiveSource(folder.path(), nullptr, {.every_frame = true, .poll_s = 0.01, .follow = false}).value();
  EXPECT_EQ(source->Next(nullptr).value()->name, "good.jpg");
  EXPECT_FALSE(source->Next(nullptr).value().has_value());
  EXPECT_THAT(source->TakeWarnings(), ElementsAre(HasSubstr("broken.jpg"), HasSubstr("notes.txt")));
  EXPECT_TRUE(source->TakeWarnings().empty());
}

TEST(LiveFolder, FollowsUntilCancelled) {
  const test::TempDir folder;
  const auto source = OpenLiveSource(folder.path(), nullptr, {.poll_s = 0.01}).value();
  std::atomic<bool> cancel = false;
  std::thread later([&] {
    folder.Write("new.jpg", Jpeg(9));
    Eventually([&] { return source->n_arrived() == 1; });
    cancel = true;
  });
  // Either order of the two is right; in the end nothing comes.
  while (source->Next(&cancel).value().has_value()) {
  }
  later.join();
  EXPECT_EQ(source->n_arrived(), 1);
}

TEST(OpenLiveSource, SaysWhatItNeeds) {
  const auto message = [](const std::string& address) {
    auto source = OpenLiveSource(address, nullptr, {});
    return source.has_value() ? "it was opened" : source.error().message;
  };
  EXPECT_THAT(message("camera"), HasSubstr("FFmpeg plugin"));
  EXPECT_THAT(message("camera:2"), HasSubstr("FFmpeg plugin"));
  EXPECT_THAT(message("rtsp://me:secret@127.0.0.1/x"), HasSubstr("FFmpeg plugin"));
  EXPECT_EQ(message("rtsp://me:secret@127.0.0.1/x").find("secret"), std::string::npos);
  EXPECT_THAT(message("http://127.0.0.1/x.mjpg"), HasSubstr("http://"));
  EXPECT_THAT(message("camera:x"), HasSubstr("camera:x"));
  EXPECT_THAT(message("no-such-file.y4m"), HasSubstr("no-such-file.y4m"));
}

class LiveStream : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = MediaPlugin::Find();
    ASSERT_TRUE(found.has_value()) << found.error().message;
    if (*found == nullptr) GTEST_SKIP() << "the FFmpeg plugin was not built (tools/setup --media)";
    plugin_ = std::move(*found);
    if (std::system("command -v ffmpeg >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "no ffmpeg program to send a stream with (tools/setup --media)";
    }
  }
  std::shared_ptr<const MediaPlugin> plugin_;
};

TEST_F(LiveStream, RtspFromALocalFfmpeg) {
  const test::RtspStream camera("-f lavfi -i testsrc2=size=96x64:rate=25");
  const auto opened = OpenLiveSource(camera.address(), plugin_.get(), {.open_timeout_s = 60, .read_timeout_s = 60});
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  int64_t last = -1;
  double last_time_s = -1;
  for (int i = 0; i < 8; ++i) {
    const auto frame = (*opened)->Next(nullptr);
    ASSERT_TRUE(frame.has_value()) << frame.error().message;
    ASSERT_TRUE(frame->has_value());
    EXPECT_GT((*frame)->number, last);
    EXPECT_GT((*frame)->time_s, last_time_s);
    EXPECT_EQ((*frame)->image.width, 96);
    EXPECT_EQ((*frame)->image.height, 64);
    last = (*frame)->number;
    last_time_s = (*frame)->time_s;
  }
}

TEST_F(LiveStream, ASilentCameraIsGivenUp) {
  const test::RtspStream camera("");
  const std::string address = "rtsp://me:secret@" + camera.address().substr(7);
  const auto source = OpenLiveSource(address, plugin_.get(), {.open_timeout_s = 1});
  ASSERT_FALSE(source.has_value());
  EXPECT_THAT(source.error().message, HasSubstr("nothing came within 1 s"));
  EXPECT_EQ(source.error().message.find("secret"), std::string::npos) << source.error().message;
}

TEST_F(LiveStream, NobodyThereIsOneClearSentence) {
  EXPECT_THAT(OpenLiveSource("rtsp://127.0.0.1:1/x", plugin_.get(), {}).error().message,
              HasSubstr("rtsp://127.0.0.1:1/x: "));
  EXPECT_THAT(OpenLiveSource("camera:981", plugin_.get(), {}).error().message, HasSubstr("/dev/video981: "));
}

}  // namespace
}  // namespace minicpm
