// The loop of `minicpm watch` with a fake source, a fake model and a fake clock.
#include "watch_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "watch_test_fakes.h"

namespace minicpm::cli {
namespace {

using test::FakeAnswerer;
using test::FakeClock;
using test::FakeSink;
using test::FakeSource;
using test::PlainImage;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Bench {
  FakeClock clock;
  FakeSource source;
  FakeAnswerer answerer;
  FakeSink sink;
  WatchRules rules;
  std::atomic<bool> cancel{false};

  // n frames at 10 per second.
  explicit Bench(int64_t n, int64_t answer_takes_ms, bool every_frame = false)
      : source(clock, n, 100, every_frame), answerer(clock, answer_takes_ms) {
    rules.unix_ms = [this] { return clock.ms; };
  }
  Result<WatchSummary> Run() { return Watch(source, answerer, sink, rules, &cancel); }
  WatchSummary RunWell() {
    auto summary = Run();
    EXPECT_TRUE(summary.has_value()) << summary.error().message;
    return summary.value_or(WatchSummary{});
  }
  template <class T>
  std::vector<T> All(T WatchEvent::* member) const {
    std::vector<T> values;
    for (const WatchEvent& event : sink.events) values.push_back(event.*member);
    return values;
  }
};

TEST(WatchLoop, AFastModelSeesEveryFrame) {
  Bench s(5, 10);
  const WatchSummary summary = s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(s.All(&WatchEvent::number), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(s.All(&WatchEvent::dropped_frames), Each(0));
  EXPECT_THAT(s.sink.frames, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(summary.n_answers, 5);
  EXPECT_EQ(summary.n_arrived, 5);
  EXPECT_EQ(summary.n_encoded_views, 5);
  EXPECT_EQ(summary.n_reused_views, 10);
}

TEST(WatchLoop, TheNewestFrameWinsWhenTheModelIsSlow) {
  Bench s(12, 350);
  s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 3, 7, 10, 11));
  EXPECT_THAT(s.All(&WatchEvent::dropped_frames), ElementsAre(0, 2, 3, 2, 0));
  const WatchEvent& second = s.sink.events.at(1);
  EXPECT_EQ(second.frame, 3);
  EXPECT_DOUBLE_EQ(second.source_time_s, 0.3);
  EXPECT_EQ(second.frame_unix_ms, 1'000'300);
  EXPECT_EQ(second.answer_unix_ms, 1'000'700) << "50 ms of waiting and 350 ms of work";
}

TEST(WatchLoop, NothingIsDroppedWhenEveryFrameIsWanted) {
  Bench s(6, 350, true);
  s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(WatchLoop, AsksAtMostSoOften) {
  Bench s(30, 10);
  s.rules.every_s = 1;
  s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 10, 20));
  EXPECT_THAT(s.All(&WatchEvent::skipped_frames), ElementsAre(0, 9, 9));
  EXPECT_THAT(s.All(&WatchEvent::dropped_frames), Each(0));
  EXPECT_EQ(s.sink.frames.size(), 30u) << "the recorder sees what was passed over, too";
}

TEST(WatchLoop, TimeThatIsRoundedDownIsNotTooEarly) {
  Bench s(3, 10);
  s.rules.every_s = 0.1000004;
  s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 1, 2));
}

TEST(WatchLoop, AsksOnlyWhenThePictureChanged) {
  Bench s(8, 10);
  const std::vector<uint8_t> greys = {100, 103, 105, 106, 106, 111, 200, 200};
  s.source.picture = [&](int64_t number) { return PlainImage(64, 64, greys[static_cast<size_t>(number)]); };
  s.rules.on_change = 5;
  s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 3, 6)) << "more than 5 from the last answered one; drift adds up";
  EXPECT_FALSE(s.sink.events.at(0).change.has_value());
  EXPECT_EQ(s.sink.events.at(1).change, 6);
  EXPECT_EQ(s.sink.events.at(2).change, 94);
  EXPECT_THAT(s.All(&WatchEvent::skipped_frames), ElementsAre(0, 2, 2));
}

TEST(WatchLoop, AChangeDuringTheWaitingTimeIsNotLost) {
  Bench s(20, 10);
  s.source.picture = [](int64_t number) { return PlainImage(64, 64, number < 3 ? 100 : 180); };
  s.rules.on_change = 5;
  s.rules.every_s = 1;
  s.RunWell();
  EXPECT_THAT(s.answerer.asked, ElementsAre(0, 10));
}

TEST(WatchLoop, RaisesTheAlarmOnceWhereAlertsBegin) {
  Bench s(8, 10);
  s.answerer.text = [](const LiveFrame& f) { return f.number >= 2 && f.number != 5 ? "yes" : "no"; };
  s.rules.is_alert = [](const std::string& text) -> Result<bool> { return text == "yes"; };
  const WatchSummary summary = s.RunWell();
  EXPECT_THAT(s.All(&WatchEvent::alarm), ElementsAre(false, false, true, false, false, false, true, false));
  EXPECT_THAT(s.All(&WatchEvent::alert), ElementsAre(false, false, true, true, true, false, true, true));
  EXPECT_EQ(summary.n_alarms, 2);
}

TEST(WatchLoop, OrAtEveryAlert) {
  Bench s(4, 10);
  s.answerer.text = [](const LiveFrame& f) { return f.number >= 2 ? "yes" : "no"; };
  s.rules.is_alert = [](const std::string& text) -> Result<bool> { return text == "yes"; };
  s.rules.alarm_every = true;
  s.RunWell();
  EXPECT_THAT(s.All(&WatchEvent::alarm), ElementsAre(false, false, true, true));
}

TEST(WatchLoop, WithoutAConditionThereIsNoAlert) {
  Bench s(2, 10);
  s.RunWell();
  EXPECT_THAT(s.All(&WatchEvent::alert), Each(std::nullopt));
  EXPECT_THAT(s.All(&WatchEvent::alarm), Each(false));
}

TEST(WatchLoop, AConditionThatCannotBeEvaluatedIsAWarning) {
  Bench s(3, 10);
  s.rules.is_alert = [](const std::string& text) -> Result<bool> {
    if (text == "1") return Fail(ErrorCode::kResourceExhausted, "too hard");
    return true;
  };
  s.RunWell();
  EXPECT_THAT(s.All(&WatchEvent::alert), ElementsAre(true, std::nullopt, true));
  EXPECT_THAT(s.All(&WatchEvent::alarm), ElementsAre(true, false, false));
  EXPECT_THAT(s.sink.warnings, ElementsAre("--alert-if: too hard"));
}

TEST(WatchLoop, StopsAfterSoManyAnswersOrSoMuchTime) {
  Bench answers(100, 10);
  answers.rules.max_answers = 3;
  EXPECT_EQ(answers.RunWell().n_answers, 3);
  EXPECT_THAT(answers.sink.frames, ElementsAre(0, 1, 2));
  Bench time(100, 10);
  time.rules.stop_after_s = 0.5;
  time.RunWell();
  EXPECT_THAT(time.answerer.asked, ElementsAre(0, 1, 2, 3, 4));
}

TEST(WatchLoop, AnInterruptDuringAnAnswerLeavesHalfAnAnswerUnsaid) {
  Bench s(10, 10);
  s.answerer.interrupted = [&](const LiveFrame& f) {
    if (f.number == 2) s.cancel = true;
    return f.number == 2;
  };
  EXPECT_EQ(s.RunWell().n_answers, 2);
  EXPECT_EQ(s.sink.events.size(), 2u);
}

TEST(WatchLoop, AnInterruptBetweenAnswersEndsToo) {
  Bench s(10, 10);
  s.answerer.text = [&](const LiveFrame&) {
    s.cancel = true;
    return "last words";
  };
  EXPECT_EQ(s.RunWell().n_answers, 1);
}

TEST(WatchLoop, ErrorsOfTheSourceAndTheSinkEndIt) {
  Bench source(2, 10);
  source.source.error_at_end = Error{ErrorCode::kIo, "camera: unplugged"};
  const auto unplugged = source.Run();
  ASSERT_FALSE(unplugged.has_value());
  EXPECT_EQ(unplugged.error().message, "camera: unplugged");
  EXPECT_EQ(source.sink.events.size(), 2u);
  Bench sink(5, 10);
  sink.sink.result = Fail(ErrorCode::kIo, "stdout: full");
  EXPECT_FALSE(sink.Run().has_value());
  EXPECT_THAT(sink.answerer.asked, ElementsAre(0));
}

TEST(WatchLoop, WarningsOfTheSourceArePassedOn) {
  Bench s(2, 10);
  s.source.warnings = {"part-7.jpg: broken"};
  s.RunWell();
  EXPECT_THAT(s.sink.warnings, ElementsAre("part-7.jpg: broken"));
}

TEST(WatchLoop, ASourceWithoutFramesIsNoAnswer) {
  Bench s(0, 10);
  EXPECT_EQ(s.RunWell().n_answers, 0);
  EXPECT_THAT(s.sink.events, IsEmpty());
}

}  // namespace
}  // namespace minicpm::cli
