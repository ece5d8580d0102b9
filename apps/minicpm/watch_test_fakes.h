// Sources, answerers, writers and clocks that tests of `minicpm watch` hand in: no model, no camera, no waiting.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "video/live_source.h"
#include "video/video_writer.h"
#include "watch_loop.h"

namespace minicpm::cli::test {

inline Image PlainImage(int width, int height, uint8_t value) {
  return {.width = width, .height = height, .rgb = std::vector<uint8_t>(size_t{3} * width * height, value)};
}

// Milliseconds that pass only when somebody says so.
struct FakeClock {
  int64_t ms = 1'000'000;
};

// A camera with `n` frames, one every `period_ms` of the fake clock. Next gives the newest that has arrived and waits
// by moving the clock. With every_frame nothing is dropped.
class FakeSource : public LiveSource {
 public:
  FakeSource(FakeClock& clock, int64_t n, int64_t period_ms, bool every_frame = false)
      : clock_(clock), begin_ms_(clock.ms), n_(n), period_ms_(period_ms), every_frame_(every_frame) {}

  std::function<Image(int64_t number)> picture = [](int64_t) { return PlainImage(8, 8, 100); };
  std::optional<Error> error_at_end;
  std::vector<std::string> warnings;

  Result<std::optional<LiveFrame>> Next(const std::atomic<bool>* cancel) override {
    if (cancel != nullptr && *cancel) return std::nullopt;
    int64_t number = last_ + 1;
    if (number >= n_) {
      if (error_at_end.has_value()) return std::unexpected(*error_at_end);
      return std::nullopt;
    }
    clock_.ms = std::max(clock_.ms, begin_ms_ + number * period_ms_);
    if (!every_frame_) number = std::min((clock_.ms - begin_ms_) / period_ms_, n_ - 1);
    last_ = number;
    LiveFrame frame;
    frame.number = number;
    frame.time_s = static_cast<double>(number * period_ms_) / 1000;
    frame.unix_ms = begin_ms_ + number * period_ms_;
    frame.image = picture(number);
    return frame;
  }
  std::vector<std::string> TakeWarnings() override { return std::exchange(warnings, {}); }
  int64_t n_arrived() const override { return last_ + 1; }
  double fps() const override { return 1000.0 / static_cast<double>(period_ms_); }

 private:
  FakeClock& clock_;
  const int64_t begin_ms_;
  const int64_t n_;
  const int64_t period_ms_;
  const bool every_frame_;
  int64_t last_ = -1;
};

// Says what `text` says about a frame; each answer takes `takes_ms` of the fake clock.
class FakeAnswerer : public Answerer {
 public:
  FakeAnswerer(FakeClock& clock, int64_t takes_ms) : clock_(clock), takes_ms_(takes_ms) {}
  std::function<std::string(const LiveFrame&)> text = [](const LiveFrame& f) { return std::to_string(f.number); };
  std::function<bool(const LiveFrame&)> interrupted = [](const LiveFrame&) { return false; };
  std::vector<int64_t> asked;

  Result<std::optional<WatchAnswer>> Answer(const LiveFrame& frame) override {
    asked.push_back(frame.number);
    clock_.ms += takes_ms_;
    if (interrupted(frame)) return std::nullopt;
    WatchAnswer answer;
    answer.text = text(frame);
    answer.finish_reason = "stop";
    answer.n_encoded_views = 1;
    answer.n_reused_views = 2;
    answer.total_ms = static_cast<double>(takes_ms_);
    return answer;
  }

 private:
  FakeClock& clock_;
  const int64_t takes_ms_;
};

class FakeSink : public WatchSink {
 public:
  std::vector<WatchEvent> events;
  std::vector<int64_t> frames;
  std::vector<std::string> warnings;
  Status result;

  Status OnAnswer(const WatchEvent& event) override {
    events.push_back(event);
    return result;
  }
  Status OnFrame(const LiveFrame& frame) override {
    frames.push_back(frame.number);
    return {};
  }
  void OnWarning(const std::string& sentence) override { warnings.push_back(sentence); }
};

// Keeps what is written where the test can see it after the writer is gone.
struct WrittenVideo {
  VideoWriterOptions options;
  std::vector<Image> frames;
  std::vector<double> times;
  bool finished = false;
  int fail_at = -1;  // the frame that cannot be written
};
class FakeWriter : public VideoWriter {
 public:
  explicit FakeWriter(WrittenVideo& video) : video_(video) {}
  Status Write(const Image& frame, double time_s) override {
    if (static_cast<int>(video_.frames.size()) == video_.fail_at) return Fail(ErrorCode::kIo, "out.avi: disk full");
    video_.frames.push_back(frame);
    video_.times.push_back(time_s);
    return {};
  }
  Status Finish() override {
    video_.finished = true;
    return {};
  }

 private:
  WrittenVideo& video_;
};

}  // namespace minicpm::cli::test
