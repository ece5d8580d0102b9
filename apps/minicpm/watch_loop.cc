// Implementation of watch_loop.h.
#include "watch_loop.h"

#include <utility>

#include "alert.h"
#include "change_detector.h"

namespace minicpm::cli {
namespace {

// Timestamps are rounded somewhere on their way: a frame that comes a moment early is not too early.
constexpr double kTimeSlack_s = 0.001;

class Loop {
 public:
  Loop(LiveSource& source, Answerer& answerer, WatchSink& sink, const WatchRules& rules,
       const std::atomic<bool>* cancel)
      : source_(source),
        answerer_(answerer),
        sink_(sink),
        rules_(rules),
        cancel_(cancel),
        trigger_(rules.alarm_every) {}

  Result<WatchSummary> Run() {
    while (!Cancelled()) {
      MINICPM_ASSIGN(const std::optional<LiveFrame> frame, source_.Next(cancel_));
      for (const std::string& sentence : source_.TakeWarnings()) sink_.OnWarning(sentence);
      if (!frame.has_value() || (rules_.stop_after_s > 0 && frame->time_s >= rules_.stop_after_s)) break;
      ++summary_.n_looked_at;
      dropped_ += frame->number - last_number_ - 1;
      last_number_ = frame->number;
      MINICPM_ASSIGN(const bool go_on, LookAt(*frame));
      if (!go_on) break;
    }
    summary_.n_arrived = source_.n_arrived();
    return summary_;
  }

 private:
  bool Cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }

  // Whether there is more to do.
  Result<bool> LookAt(const LiveFrame& frame) {
    const bool soon = last_asked_s_.has_value() && frame.time_s < *last_asked_s_ + rules_.every_s - kTimeSlack_s;
    std::optional<double> change;
    if (rules_.on_change.has_value() && !soon) change = detector_.Measure(frame.image);
    if (soon || (change.has_value() && *change <= *rules_.on_change)) {
      ++skipped_;
      MINICPM_TRY(sink_.OnFrame(frame));
      return true;
    }
    MINICPM_ASSIGN(std::optional<WatchAnswer> answer, answerer_.Answer(frame));
    if (!answer.has_value()) return false;
    detector_.Accept();
    last_asked_s_ = frame.time_s;
    MINICPM_TRY(Report(frame, change, std::move(*answer)));
    MINICPM_TRY(sink_.OnFrame(frame));
    return rules_.max_answers == 0 || summary_.n_answers < rules_.max_answers;
  }

  Status Report(const LiveFrame& frame, std::optional<double> change, WatchAnswer answer) {
    WatchEvent event;
    event.number = ++summary_.n_answers;
    event.frame = frame.number;
    event.source_time_s = frame.time_s;
    event.frame_unix_ms = frame.unix_ms;
    event.answer_unix_ms = rules_.unix_ms();
    event.file = frame.name;
    event.width = frame.image.width;
    event.height = frame.image.height;
    event.change = change;
    event.dropped_frames = std::exchange(dropped_, 0);
    event.skipped_frames = std::exchange(skipped_, 0);
    if (rules_.is_alert) {
      const auto alert = rules_.is_alert(answer.text);
      if (alert.has_value()) {
        event.alert = *alert;
        event.alarm = trigger_.Update(*alert);
      } else {
        sink_.OnWarning("--alert-if: " + alert.error().message);
      }
    }
    summary_.n_alarms += event.alarm ? 1 : 0;
    summary_.n_encoded_views += answer.n_encoded_views;
    summary_.n_reused_views += answer.n_reused_views;
    summary_.answer_ms += answer.total_ms;
    event.answer = std::move(answer);
    return sink_.OnAnswer(event);
  }

  LiveSource& source_;
  Answerer& answerer_;
  WatchSink& sink_;
  const WatchRules& rules_;
  const std::atomic<bool>* const cancel_;
  AlertTrigger trigger_;
  ChangeDetector detector_;
  WatchSummary summary_;
  std::optional<double> last_asked_s_;
  int64_t last_number_ = -1;
  int64_t dropped_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace

Result<WatchSummary> Watch(LiveSource& source, Answerer& answerer, WatchSink& sink, const WatchRules& rules,
                           const std::atomic<bool>* cancel) {
  return Loop(source, answerer, sink, rules, cancel).Run();
}

}  // namespace minicpm::cli
