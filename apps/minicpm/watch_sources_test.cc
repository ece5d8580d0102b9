// Sources that come back, sources that are observed, the recorder, and what is said about an answer.
#include "watch_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/json_schema.h"
#include "watch_recorder.h"
#include "watch_report.h"
#include "watch_test_fakes.h"

namespace minicpm::cli {
namespace {

using test::FakeClock;
using test::FakeSource;
using test::FakeWriter;
using test::PlainImage;
using test::WrittenVideo;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Error kUnplugged{ErrorCode::kIo, "camera 0: no frame for 10 s"};

// A camera that breaks after two frames, each time it is opened.
struct Flaky {
  FakeClock clock;
  std::vector<std::string> notes;
  std::vector<double> waits;
  int fail_opens = 0;
  int n_opened = 0;

  std::unique_ptr<LiveSource> Camera() {
    auto source = std::make_unique<FakeSource>(clock, 2, 100);
    source->error_at_end = kUnplugged;
    return source;
  }
  ReconnectingSource::Options Options() {
    ReconnectingSource::Options options;
    options.open = [this]() -> Result<std::unique_ptr<LiveSource>> {
      ++n_opened;
      if (fail_opens-- > 0) return Fail(ErrorCode::kIo, "camera 0: not there");
      return Camera();
    };
    options.note = [this](const std::string& sentence) { notes.push_back(sentence); };
    options.wait = [this](double seconds, const std::atomic<bool>*) {
      waits.push_back(seconds);
      clock.ms += static_cast<int64_t>(1000 * seconds);
    };
    options.now_s = [this] { return static_cast<double>(clock.ms) / 1000; };
    return options;
  }
};

LiveFrame NextFrame(LiveSource& source) {
  auto frame = source.Next(nullptr);
  EXPECT_TRUE(frame.has_value() && frame->has_value());
  return frame.has_value() && frame->has_value() ? std::move(**frame) : LiveFrame{};
}

TEST(ReconnectingSource, GoesOnCountingWhereItWas) {
  Flaky flaky;
  ReconnectingSource source(flaky.Camera(), flaky.Options());
  std::vector<int64_t> numbers;
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const LiveFrame frame = NextFrame(source);
    numbers.push_back(frame.number);
    times.push_back(frame.time_s);
  }
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(times, ::testing::Pointwise(::testing::DoubleNear(1e-9), {0.0, 0.1, 1.1, 1.2, 2.2}));
  EXPECT_EQ(source.n_arrived(), 5);
  EXPECT_THAT(flaky.notes, ElementsAre("camera 0: no frame for 10 s; trying again in 1 s",
                                       "camera 0: no frame for 10 s; trying again in 1 s"));
}

TEST(ReconnectingSource, WaitsLongerEachTime) {
  Flaky flaky;
  flaky.fail_opens = 7;
  ReconnectingSource source(flaky.Camera(), flaky.Options());
  for (int i = 0; i < 3; ++i) NextFrame(source);
  EXPECT_THAT(flaky.waits, ElementsAre(1, 2, 4, 8, 16, 30, 30, 30));
  EXPECT_THAT(flaky.notes.at(1), HasSubstr("camera 0: not there; trying again in 2 s"));
  NextFrame(source);
  NextFrame(source);
  EXPECT_EQ(flaky.waits.back(), 1) << "after frames came it starts anew";
}

TEST(ReconnectingSource, GivesUpWhenToldTo) {
  Flaky flaky;
  flaky.fail_opens = 1000;
  auto options = flaky.Options();
  options.give_up_after_s = 20;
  ReconnectingSource source(flaky.Camera(), options);
  NextFrame(source);
  NextFrame(source);
  const auto frame = source.Next(nullptr);
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().message, "camera 0: not there");
  EXPECT_THAT(flaky.waits, ElementsAre(1, 2, 4, 8, 16));
  EXPECT_FALSE(source.Next(nullptr).has_value()) << "and stays so";
}

TEST(ReconnectingSource, AnInterruptEndsTheWaiting) {
  Flaky flaky;
  std::atomic<bool> cancel{false};
  auto options = flaky.Options();
  options.wait = [&](double, const std::atomic<bool>*) { cancel = true; };
  ReconnectingSource source(flaky.Camera(), options);
  NextFrame(source);
  NextFrame(source);
  const auto frame = source.Next(&cancel);
  ASSERT_TRUE(frame.has_value());
  EXPECT_FALSE(frame->has_value());
  EXPECT_EQ(flaky.n_opened, 0);
}

TEST(ReconnectingSource, KeepsTheWarningsOfSourcesThatAreGone) {
  Flaky flaky;
  auto first = std::make_unique<FakeSource>(flaky.clock, 1, 100);
  first->warnings = {"a picture was lost"};
  ReconnectingSource source(std::move(first), flaky.Options());
  NextFrame(source);
  NextFrame(source);
  EXPECT_THAT(source.TakeWarnings(), ElementsAre("a picture was lost"));
  EXPECT_THAT(source.TakeWarnings(), IsEmpty());
}

TEST(ReconnectingSource, AStreamThatEndsIsOpenedAgain) {
  Flaky flaky;
  ReconnectingSource source(std::make_unique<FakeSource>(flaky.clock, 1, 100), flaky.Options());
  NextFrame(source);
  EXPECT_EQ(NextFrame(source).number, 1);
  EXPECT_THAT(flaky.notes, ElementsAre("the stream ended; trying again in 1 s"));
}

// A source that gives frames when the test says so.
class GatedSource : public LiveSource {
 public:
  Result<std::optional<LiveFrame>> Next(const std::atomic<bool>* cancel) override {
    std::unique_lock lock(mutex_);
    while (!*cancel) {
      if (given_ < released_) {
        LiveFrame frame;
        frame.number = given_++;
        frame.image = PlainImage(4, 4, 0);
        return frame;
      }
      if (error_.has_value()) return std::unexpected(*error_);
      if (ended_) return std::nullopt;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    return std::nullopt;
  }
  int64_t n_arrived() const override {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  double fps() const override { return 0; }
  void Release(int64_t n) {
    const std::lock_guard lock(mutex_);
    released_ += n;
  }
  void End(std::optional<Error> error = std::nullopt) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    error_ = std::move(error);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t released_ = 0;
  int64_t given_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
};

TEST(ObservedSource, TheObserverSeesEveryFrameAndTheLoopTheNewest) {
  GatedSource gated;
  std::atomic<int64_t> n_seen{0};
  ObservedSource source(gated, [&](const LiveFrame& frame) -> Status {
    EXPECT_EQ(frame.number, n_seen);
    ++n_seen;
    return {};
  });
  gated.Release(5);
  while (n_seen < 5) std::this_thread::yield();
  gated.Release(1);
  while (n_seen < 6) std::this_thread::yield();
  // The sixth was observed a moment before it is handed over.
  int64_t newest = NextFrame(source).number;
  EXPECT_GE(newest, 4);
  if (newest == 4) newest = NextFrame(source).number;
  EXPECT_EQ(newest, 5);
  gated.Release(1);
  EXPECT_EQ(NextFrame(source).number, 6);
  gated.End();
  const auto end = source.Next(nullptr);
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->has_value());
}

TEST(ObservedSource, PassesErrorsOn) {
  GatedSource gated;
  ObservedSource source(gated, [](const LiveFrame&) -> Status { return {}; });
  gated.Release(1);
  gated.End(kUnplugged);
  EXPECT_EQ(NextFrame(source).number, 0) << "a frame before the error still counts";
  EXPECT_EQ(source.Next(nullptr).error().message, kUnplugged.message);

  GatedSource other;
  ObservedSource unobservable(other, [](const LiveFrame&) -> Status { return Fail(ErrorCode::kIo, "no room"); });
  other.Release(1);
  EXPECT_EQ(unobservable.Next(nullptr).error().message, "no room");
}

TEST(ObservedSource, AnInterruptEndsTheWaiting) {
  GatedSource gated;
  ObservedSource source(gated, [](const LiveFrame&) -> Status { return {}; });
  const std::atomic<bool> cancel{true};
  const auto frame = source.Next(&cancel);
  ASSERT_TRUE(frame.has_value());
  EXPECT_FALSE(frame->has_value());
}

struct Recording {
  WrittenVideo video;
  std::vector<std::string> warnings;
  std::unique_ptr<OverlayRecorder> recorder;

  explicit Recording(bool evenly = false) {
    auto drawer = TextDrawer::Create("");
    EXPECT_TRUE(drawer.has_value()) << drawer.error().message;
    OverlayRecorder::Options options;
    options.fps = 25;
    options.evenly = evenly;
    options.open = [this](const VideoWriterOptions& o) -> Result<std::unique_ptr<VideoWriter>> {
      video.options = o;
      return std::make_unique<FakeWriter>(video);
    };
    options.warn = [this](const std::string& sentence) { warnings.push_back(sentence); };
    recorder = std::make_unique<OverlayRecorder>(std::move(*drawer), std::move(options));
  }
  Status Add(double time_s, Image image = PlainImage(160, 120, 90)) {
    LiveFrame frame;
    frame.time_s = time_s;
    frame.image = std::move(image);
    return recorder->Add(frame);
  }
};

TEST(OverlayRecorder, DrawsTheNewestCaptionOnEveryFrame) {
  Recording r;
  EXPECT_TRUE(r.Add(5.0).has_value());
  r.recorder->SetCaption("no", false);
  EXPECT_TRUE(r.Add(5.5).has_value());
  r.recorder->SetCaption("yes, below", true);
  EXPECT_TRUE(r.Add(5.25).has_value());
  EXPECT_TRUE(r.recorder->Finish().has_value());
  EXPECT_TRUE(r.video.finished);
  EXPECT_EQ(r.video.options.width, 160);
  EXPECT_EQ(r.video.options.fps, 25);
  EXPECT_THAT(r.video.times, ElementsAre(0, 0.5, 0.5)) << "time counts from the first frame and never falls";
  const Image plain = PlainImage(160, 120, 90);
  EXPECT_EQ(r.video.frames[0].rgb, plain.rgb) << "there is no answer yet";
  EXPECT_NE(r.video.frames[1].rgb, plain.rgb);
  const auto first_pixel_of_last_row = [](const Image& image) { return &image.rgb[size_t{3} * 160 * 119]; };
  EXPECT_GT(first_pixel_of_last_row(r.video.frames[2])[0], 100) << "an alert stands on red";
  EXPECT_LT(first_pixel_of_last_row(r.video.frames[1])[0], 90);
}

TEST(OverlayRecorder, PicturesOfAFolderAreShownOneAfterTheOther) {
  Recording r(true);
  for (const double time_s : {0.0, 86'400.0, 86'400.0}) EXPECT_TRUE(r.Add(time_s).has_value());
  EXPECT_THAT(r.video.times, ElementsAre(0, 0.04, 0.08));
}

TEST(OverlayRecorder, FitsOtherSizesIntoTheFirst) {
  Recording r;
  EXPECT_TRUE(r.Add(0).has_value());
  EXPECT_TRUE(r.Add(1, PlainImage(400, 100, 200)).has_value());
  ASSERT_EQ(r.video.frames.size(), 2u);
  const Image& fitted = r.video.frames[1];
  EXPECT_EQ(fitted.width, 160);
  EXPECT_EQ(fitted.height, 120);
  EXPECT_EQ(fitted.rgb[0], 0) << "bars above and below";
  EXPECT_EQ(fitted.rgb[size_t{3} * (60 * 160 + 80)], 200);
}

TEST(OverlayRecorder, AFullDiskEndsTheRecordingOnly) {
  Recording r;
  r.video.fail_at = 1;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(r.Add(i).has_value());
  EXPECT_THAT(r.warnings, ElementsAre("--save-video: out.avi: disk full; the watching goes on without recording"));
  EXPECT_TRUE(r.video.finished) << "what there is stays";
  EXPECT_EQ(r.recorder->Finish().error().message, "out.avi: disk full");
}

TEST(OverlayRecorder, WithoutFramesThereIsNoVideo) {
  Recording r;
  EXPECT_EQ(r.recorder->Finish().error().code, ErrorCode::kNotFound);
}

WatchEvent Event() {
  WatchEvent event;
  event.number = 3;
  event.frame = 37;
  event.source_time_s = 1.2333333333;
  event.frame_unix_ms = 1'000'000'000'000;
  event.answer_unix_ms = 1'000'000'001'234;
  event.width = 640;
  event.height = 480;
  event.answer.text = "yes, \"below\"\n\x01 缺陷";
  event.answer.finish_reason = "stop";
  return event;
}

TEST(WatchReport, TimesAreUtcWithMilliseconds) {
  EXPECT_EQ(Rfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Rfc3339(951'782'400'000 - 1), "2000-02-28T23:59:59.999Z");
  EXPECT_EQ(Rfc3339(951'782'400'000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(Rfc3339(-5), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Rfc3339(INT64_MAX), "9999-12-31T23:59:59.999Z");
}

TEST(WatchReport, TheLineFollowsItsSchema) {
  WatchEvent event = Event();
  EXPECT_THAT(testing::ValidateText("watch.schema.json", WatchLine(event)), IsEmpty());
  const auto json = nlohmann::json::parse(WatchLine(event));
  EXPECT_EQ(json["time"], "2001-09-09T01:46:41.234Z");
  EXPECT_EQ(json["frame_time"], "2001-09-09T01:46:40.000Z");
  EXPECT_EQ(json["latency_ms"], 1234);
  EXPECT_EQ(json["source_time_s"], 1.233333);
  EXPECT_EQ(json["text"], event.answer.text);
  EXPECT_TRUE(json["alert"].is_null());
  EXPECT_TRUE(json["change"].is_null());
  EXPECT_FALSE(json.contains("file"));

  event.alert = true;
  event.alarm = true;
  event.change = 12.34567;
  event.file = "part-\xff.jpg";
  event.answer_unix_ms = event.frame_unix_ms - 50;  // the clock was set back
  const std::string line = WatchLine(event);
  EXPECT_THAT(testing::ValidateText("watch.schema.json", line), IsEmpty());
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto full = nlohmann::json::parse(line);
  EXPECT_EQ(full["alert"], true);
  EXPECT_EQ(full["change"], 12.346);
  EXPECT_EQ(full["file"], "part-\ufffd.jpg");
  EXPECT_EQ(full["latency_ms"], 0);
}

TEST(WatchReport, VariablesAndCaption) {
  WatchEvent event = Event();
  event.alert = true;
  EXPECT_THAT(AlertVariables(event, "camera:1"),
              ElementsAre("MINICPM_ALERT_TIME=2001-09-09T01:46:41.234Z", "MINICPM_ALERT_FRAME=37",
                          "MINICPM_ALERT_SOURCE_TIME_S=1.233", "MINICPM_ALERT_TEXT=" + event.answer.text,
                          "MINICPM_ALERT_ANSWER=3", "MINICPM_ALERT_FILE=", "MINICPM_ALERT_SOURCE=camera:1"));
  EXPECT_EQ(WatchCaption(event), "#37  1.233 s  ALERT\n" + event.answer.text);
  event.alert = false;
  EXPECT_THAT(WatchCaption(event), Not(HasSubstr("ALERT")));
}

}  // namespace
}  // namespace minicpm::cli
