// `minicpm watch` from outside, on generated clips and a bundled model: lines, alarms, the video, reuse, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/utf8.h"
#include "cli_test_process.h"
#include "tests/support/clip.h"
#include "tests/support/json_schema.h"
#include "tests/support/rtsp_stream.h"
#include "tests/support/temp_dir.h"
#include "video/video.h"

namespace minicpm::cli {
namespace {

using minicpm::test::ClipSpec;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

constexpr int kDefectFrom = 4;
const ClipSpec kDefectClip{.width = 64, .height = 64, .n_frames = 7, .defect_from = kDefectFrom};

Words WatchWords(const std::string& source, const Words& more) {
  Words words = {"watch",   TinyModel("minicpm-v-4_5"), "--source", source, "-p", "Is the part defective?",
                 "--quiet", "--max-new-tokens",         "12"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<json> ParseLines(const std::string& out) {
  std::vector<json> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) {
    EXPECT_THAT(minicpm::testing::ValidateText("watch.schema.json", line), IsEmpty()) << line;
    lines.push_back(json::parse(line, nullptr, false));
  }
  return lines;
}

// Runs to the end and checks what every such run must fulfil.
std::vector<json> WatchLines(const std::string& source, const Words& more) {
  const Outcome outcome = Minicpm(WatchWords(source, more));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return ParseLines(outcome.out);
}

template <class T>
std::vector<T> All(const std::vector<json>& lines, const char* key) {
  std::vector<T> values;
  for (const json& line : lines) values.push_back(line.at(key).get<T>());
  return values;
}

std::string Clip(const minicpm::test::TempDir& dir, const ClipSpec& spec, const std::string& name = "clip.y4m") {
  EXPECT_TRUE(minicpm::test::WriteClip(dir.File(name), spec));
  return dir.File(name);
}

// A regular expression for exactly this text.
std::string Exactly(const std::string& text) {
  std::string pattern = "\\A";
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    char item[16];
    std::snprintf(item, sizeof item, "\\x{%x}", static_cast<unsigned>(c.code_point));
    pattern += item;
    pos += c.length;
  }
  return pattern + "\\z";
}

TEST(Watch, TheAlarmComesWithTheDefectAndTheCommandRunsOnce) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, kDefectClip);
  // What the model says about the good part and about the defective one: it sees the difference.
  const std::vector<json> plain = WatchLines(clip, {"--every-frame"});
  ASSERT_EQ(plain.size(), 7u);
  const auto texts = All<std::string>(plain, "text");
  ASSERT_THAT(std::vector(texts.begin(), texts.begin() + kDefectFrom), Each(texts.front()));
  ASSERT_THAT(std::vector(texts.begin() + kDefectFrom, texts.end()), Each(texts.back()));
  ASSERT_NE(texts.front(), texts.back());
  EXPECT_THAT(All<bool>(plain, "alarm"), Each(false));

  const std::vector<json> lines =
      WatchLines(clip, {"--every-frame", "--alert-if", Exactly(texts.back()), "--exec",
                        "cat >> " + dir.File("alarms") + "; printf %s \"$MINICPM_ALERT_FRAME,$MINICPM_ALERT_TEXT\" > " +
                            dir.File("variables"),
                        "--save-video", dir.File("out.avi")});
  EXPECT_EQ(All<std::string>(lines, "text"), texts) << "neither alarms nor recording change an answer";
  EXPECT_THAT(All<int64_t>(lines, "frame"), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(All<bool>(lines, "alert"), ElementsAre(false, false, false, false, true, true, true));
  EXPECT_THAT(All<bool>(lines, "alarm"), ElementsAre(false, false, false, false, true, false, false));
  const std::vector<json> alarms = ParseLines(minicpm::test::ReadFileBytes(dir.File("alarms")));
  ASSERT_EQ(alarms.size(), 1u) << "the command ran once";
  EXPECT_EQ(alarms[0], lines[kDefectFrom]);
  EXPECT_EQ(minicpm::test::ReadFileBytes(dir.File("variables")), "4," + texts.back());
  EXPECT_THAT(
      All<double>(lines, "source_time_s"),
      ::testing::Pointwise(::testing::DoubleNear(1e-5), {0.0, 1 / 30., 2 / 30., 3 / 30., 4 / 30., 5 / 30., 6 / 30.}));
}

TEST(Watch, TheVideoShowsTheAnswers) {
  const minicpm::test::TempDir dir;
  ClipSpec spec{.width = 320, .height = 240, .n_frames = 3};
  const std::string clip = Clip(dir, spec);
  const auto lines =
      WatchLines(clip, {"--every-frame", "--max-slices", "1", "--alert-if", ".", "--save-video", dir.File("out.avi")});
  ASSERT_EQ(lines.size(), 3u);
  const auto recorded = OpenVideo(dir.File("out.avi"), nullptr);
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  EXPECT_EQ((*recorded)->info().n_frames, 3);
  EXPECT_EQ((*recorded)->info().width, 320);
  for (int64_t i = 0; i < 3; ++i) {
    const auto frame = (*recorded)->Frame(i);
    ASSERT_TRUE(frame.has_value()) << frame.error().message;
    // The alert's red box lies in the lower left corner, white letters in it; the grey picture has neither.
    int n_red = 0;
    int n_white = 0;
    for (int y = 200; y < 240; ++y) {
      for (int x = 0; x < 100; ++x) {
        const uint8_t* pixel = &frame->rgb[3 * (static_cast<size_t>(y) * 320 + x)];
        n_red += pixel[0] > pixel[1] + 60 ? 1 : 0;
        n_white += pixel[0] > 200 && pixel[1] > 200 && pixel[2] > 200 ? 1 : 0;
      }
    }
    EXPECT_GT(n_red, 500) << i;
    EXPECT_GT(n_white, 50) << i;
  }
}

TEST(Watch, SlicesThatDidNotChangeAreNotEncodedAgain) {
  const minicpm::test::TempDir dir;
  // More pixels than a single view holds: an overview and slices.
  const ClipSpec spec{.width = 896, .height = 448, .n_frames = 4, .moving_part = true};
  const std::string clip = Clip(dir, spec);
  const auto all = WatchLines(clip, {"--every-frame", "--no-reuse"});
  const auto reused = WatchLines(clip, {"--every-frame"});
  ASSERT_EQ(all.size(), 4u);
  ASSERT_EQ(reused.size(), 4u);
  EXPECT_EQ(All<std::string>(all, "text"), All<std::string>(reused, "text"));
  const auto n_views = all[0].at("encoded_views").get<int64_t>();
  ASSERT_GE(n_views, 3);
  EXPECT_THAT(All<int64_t>(all, "encoded_views"), Each(n_views));
  EXPECT_THAT(All<int64_t>(all, "reused_views"), Each(0));
  EXPECT_EQ(reused[0].at("encoded_views"), n_views);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_GT(reused[i].at("reused_views").get<int64_t>(), 0);
    EXPECT_GE(reused[i].at("encoded_views").get<int64_t>(), 2) << "the overview and the slice with the moving part";
    EXPECT_EQ(reused[i].at("encoded_views").get<int64_t>() + reused[i].at("reused_views").get<int64_t>(), n_views);
  }
}

TEST(Watch, AThresholdAboveTheNoiseReusesNoisySlices) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, {.width = 256, .height = 192, .n_frames = 2, .noise = 1});
  const auto exact = WatchLines(clip, {"--every-frame"});
  const auto tolerant = WatchLines(clip, {"--every-frame", "--noise-threshold", "12"});
  ASSERT_EQ(exact.size(), 2u);
  ASSERT_EQ(tolerant.size(), 2u);
  EXPECT_EQ(exact[1].at("reused_views"), 0);
  EXPECT_EQ(tolerant[1].at("encoded_views"), 0);
  EXPECT_EQ(tolerant[1].at("text"), tolerant[0].at("text"));
}

TEST(Watch, AsksAtIntervalsAndOnChangesOnly) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, kDefectClip);
  const auto seldom = WatchLines(clip, {"--every-frame", "--every", "0.1"});
  EXPECT_THAT(All<int64_t>(seldom, "frame"), ElementsAre(0, 3, 6));
  EXPECT_THAT(All<int64_t>(seldom, "skipped_frames"), ElementsAre(0, 2, 2));
  EXPECT_THAT(All<int64_t>(seldom, "dropped_frames"), Each(0));
  const auto changed = WatchLines(clip, {"--every-frame", "--on-change", "8"});
  EXPECT_THAT(All<int64_t>(changed, "frame"), ElementsAre(0, kDefectFrom));
  EXPECT_TRUE(changed[0].at("change").is_null());
  EXPECT_GT(changed[1].at("change").get<double>(), 100);
  const auto few = WatchLines(clip, {"--every-frame", "--max-answers", "2"});
  EXPECT_THAT(All<int64_t>(few, "answer"), ElementsAre(1, 2));
  const auto brief = WatchLines(clip, {"--every-frame", "--stop-after", "0.1"});
  EXPECT_THAT(All<int64_t>(brief, "frame"), ElementsAre(0, 1, 2));
}

TEST(Watch, AFilePlayedAtItsSpeedCountsWhatIsDropped) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, {.width = 64, .height = 64, .n_frames = 40, .fps = 50});
  const auto lines = WatchLines(clip, {"--save-video", dir.File("out.avi")});
  ASSERT_FALSE(lines.empty());
  int64_t n = 0;
  int64_t last = -1;
  for (const json& line : lines) {
    EXPECT_GT(line.at("frame").get<int64_t>(), last);
    last = line.at("frame").get<int64_t>();
    n += 1 + line.at("dropped_frames").get<int64_t>() + line.at("skipped_frames").get<int64_t>();
  }
  EXPECT_EQ(n, last + 1) << "every frame up to the last answer is answered, dropped or skipped";
  EXPECT_EQ(last, 39) << "the last frame is always looked at";
}

// A disk that fills up: what there is becomes the video. A file size limit stands for it.
TEST(Watch, AFullDiskKeepsWhatThereIs) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, {.width = 320, .height = 240, .n_frames = 12, .noise = 40});
  const std::string command = "ulimit -f 100; exec " + std::string(MINICPM_PROGRAM) + " watch " +
                              TinyModel("minicpm-v-4_5") + " --source " + clip +
                              " -p x --quiet --max-slices 1 --max-new-tokens 1 --every-frame --save-video " +
                              dir.File("out.avi") + " >" + dir.File("lines") + " 2>" + dir.File("errors");
  const int status = std::system(("bash -c '" + command + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1) << minicpm::test::ReadFileBytes(dir.File("errors"));
  EXPECT_EQ(ParseLines(minicpm::test::ReadFileBytes(dir.File("lines"))).size(), 12u) << "the watching goes on";
  const auto recorded = OpenVideo(dir.File("out.avi"), nullptr);
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  EXPECT_GE((*recorded)->info().n_frames, 1);
  EXPECT_LT((*recorded)->info().n_frames, 12);
}

TEST(Watch, ClosedStandardStreamsDoNotReachTheRecording) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, {.width = 64, .height = 64, .n_frames = 2});
  const std::string command = std::string(MINICPM_PROGRAM) + " watch " + TinyModel("minicpm-v-4_5") + " --source " +
                              clip + " -p x --quiet --max-new-tokens 1 --every-frame --save-video " +
                              dir.File("out.avi") + " <&- 2>&- >" + dir.File("lines");
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  EXPECT_EQ(ParseLines(minicpm::test::ReadFileBytes(dir.File("lines"))).size(), 2u);
  EXPECT_EQ(minicpm::test::ReadFileBytes(dir.File("out.avi")).substr(0, 4), "RIFF");
}

TEST(Watch, ANetworkCamera) {
  const auto plugin = MediaPlugin::Find();
  ASSERT_TRUE(plugin.has_value()) << plugin.error().message;
  if (*plugin == nullptr) GTEST_SKIP() << "the FFmpeg plugin was not built (tools/setup --media)";
  if (std::system("command -v ffmpeg >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no ffmpeg program to send a stream with (tools/setup --media)";
  }
  const minicpm::test::TempDir dir;
  const minicpm::test::RtspStream camera("-f lavfi -i testsrc2=size=96x64:rate=25");
  const std::vector<json> lines =
      WatchLines(camera.address(), {"--max-answers", "3", "--save-video", dir.File("shift.mp4")});
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 1; i < lines.size(); ++i) {
    EXPECT_GT(lines[i].at("frame").get<int64_t>(), lines[i - 1].at("frame").get<int64_t>());
  }
  EXPECT_EQ(lines[0].at("width"), 96);
  const auto recorded = OpenVideo(dir.File("shift.mp4"), plugin->get());
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  EXPECT_GE((*recorded)->info().n_frames, 3);
}

TEST(Watch, AFolderIsReadInOrderAndNamesItsFiles) {
  const minicpm::test::TempDir dir;
  std::filesystem::create_directory(dir.File("in"));
  const std::string photos = std::string(MINICPM_SOURCE_DIR) + "/tests/data/photos/";
  std::filesystem::copy_file(photos + "cat.jpg", dir.File("in/1.jpg"));
  std::filesystem::copy_file(photos + "coffee.jpg", dir.File("in/2.jpg"));
  std::filesystem::last_write_time(dir.File("in/2.jpg"),
                                   std::filesystem::last_write_time(dir.File("in/1.jpg")) + std::chrono::seconds(5));
  dir.Write("in/3.jpg", "no picture");
  const Outcome outcome = Minicpm(WatchWords(
      dir.File("in"), {"--every-frame", "--no-follow", "--max-slices", "1", "--save-video", dir.File("v.avi")}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(StartsWith("minicpm: warning: "), HasSubstr("3.jpg")));
  const auto lines = ParseLines(outcome.out);
  EXPECT_THAT(All<std::string>(lines, "file"), ElementsAre("1.jpg", "2.jpg"));
  const auto recorded = OpenVideo(dir.File("v.avi"), nullptr);
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  EXPECT_NEAR((*recorded)->info().duration_s, 2, 0.01) << "one second for each picture";
}

TEST(Watch, ASignalEndsItAndTheVideoIsFinished) {
  for (const int number : {SIGINT, SIGTERM}) {
    const minicpm::test::TempDir dir;
    std::filesystem::create_directory(dir.File("in"));
    std::filesystem::copy_file(std::string(MINICPM_SOURCE_DIR) + "/tests/data/photos/cat.jpg", dir.File("in/1.jpg"));
    Child child(WatchWords(dir.File("in"), {"--max-slices", "1", "--save-video", dir.File("out.avi")}));
    ASSERT_TRUE(child.WaitFor("\"frame\":0"));  // now it waits for the next picture
    child.Signal(number);
    const Outcome outcome = child.Finish();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(ParseLines(outcome.out).size(), 1u);
    EXPECT_TRUE(OpenVideo(dir.File("out.avi"), nullptr).has_value());
  }
}

TEST(Watch, ANoteSaysWhatWasDone) {
  const minicpm::test::TempDir dir;
  Words words = WatchWords(Clip(dir, {.width = 64, .height = 64, .n_frames = 2}), {"--every-frame"});
  std::erase(words, "--quiet");
  EXPECT_THAT(Minicpm(words).err, HasSubstr("2 answers; 2 frames came, 2 were looked at; "));
}

TEST(Watch, AFailingCommandNeverStopsTheWatching) {
  const minicpm::test::TempDir dir;
  const Outcome outcome = Minicpm(WatchWords(Clip(dir, {.width = 64, .height = 64, .n_frames = 2}),
                                             {"--every-frame", "--alert-if", "", "--exec", "exit 3"}));
  EXPECT_EQ(outcome.exit_code, 2) << "an empty expression is a mistake";
  const Outcome failed = Minicpm(WatchWords(
      dir.File("clip.y4m"), {"--every-frame", "--alert-if", "(?s).*", "--exec", "echo loud; exit 3", "--alert-every"}));
  EXPECT_EQ(failed.exit_code, 0);
  EXPECT_EQ(ParseLines(failed.out).size(), 2u) << "what the command prints is not among the answers";
  EXPECT_EQ(failed.err,
            "loud\nminicpm: warning: --exec: the command failed: exit code 3\n"
            "loud\nminicpm: warning: --exec: the command failed: exit code 3\n");
}

TEST(Watch, AReaderThatLeavesEndsItWithAnError) {
  const minicpm::test::TempDir dir;
  const Outcome outcome = Child(WatchWords(Clip(dir, {.width = 64, .height = 64, .n_frames = 2}),
                                           {"--every-frame", "--save-video", dir.File("out.avi")}),
                                Child::Io::kFullDisk)
                              .Finish();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("minicpm: stdout: an answer could not be written\n"));
}

void ExpectFailure(const Words& words, int exit_code, const std::string& sentence) {
  const Outcome outcome = Minicpm(words);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(StartsWith("minicpm: "), HasSubstr(sentence)));
}

TEST(Watch, WrongUsage) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, {.width = 64, .height = 64, .n_frames = 1});
  ExpectFailure({"watch", "model", "-p", "x"}, 2, "--source");
  ExpectFailure({"watch", "model", "--source", clip}, 2, "--prompt");
  ExpectFailure(WatchWords(clip, {"--alert-if", "a(b"}), 2,
                "--alert-if: expected a regular expression, found an error at character 4 of \"a(b\": ");
  ExpectFailure(WatchWords(clip, {"--exec", "true"}), 2, "--exec: expected --alert-if beside it");
  ExpectFailure(WatchWords(clip, {"--alert-every"}), 2, "--alert-every: expected --alert-if beside it");
  ExpectFailure(WatchWords(clip, {"--exec-timeout", "3"}), 2, "--exec-timeout: expected --exec beside it");
  ExpectFailure(WatchWords(clip, {"--font", "x.ttf"}), 2, "--font: expected --save-video beside it");
  ExpectFailure(WatchWords("camera", {"--every-frame"}), 2, "--every-frame: expected a file or a folder");
  ExpectFailure(WatchWords(clip, {"--reconnect-for", "5"}), 2, "--reconnect-for: expected a camera or stream");
  ExpectFailure(WatchWords(clip, {"--no-reuse", "--noise-threshold", "3"}), 2, "--noise-threshold");
  ExpectFailure(WatchWords(clip, {"--save-video", clip}), 1, "is the source itself");
  ExpectFailure(WatchWords(clip, {"--on-change", "256"}), 2, "--on-change: expected a number from 0 to 255");
}

TEST(Watch, WorkThatFails) {
  const minicpm::test::TempDir dir;
  const std::string clip = Clip(dir, {.width = 64, .height = 64, .n_frames = 1});
  ExpectFailure(WatchWords(dir.File("none.y4m"), {}), 1, "none.y4m: expected a camera, an rtsp:// address, a file");
  ExpectFailure(WatchWords(dir.Write("bad.y4m", "YUV4MPEG2 what"), {}), 1, "bad.y4m");
  ExpectFailure(WatchWords(clip, {"--save-video", dir.File("out.txt")}), 1, "out.txt");
  ExpectFailure(WatchWords(clip, {"--save-video", dir.File("nowhere/out.avi")}), 1, "nowhere/out.avi");
  ExpectFailure(WatchWords(clip, {"--save-video", dir.File("o.avi"), "--font", clip}), 1, "expected a font");
  EXPECT_FALSE(std::filesystem::exists(dir.File("out.txt")));
}

TEST(Watch, HelpHasExamples) {
  const Outcome help = Minicpm({"watch", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr("--on-change"), HasSubstr("(default: 128)")));
}

}  // namespace
}  // namespace minicpm::cli
