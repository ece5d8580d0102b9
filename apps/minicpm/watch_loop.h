// The loop of `minicpm watch`: which frames are asked about, what an answer says, when the alarm is raised. Knows no
// model, no camera and no output: those are handed in, so that tests can be. Not for options (watch_options.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "video/live_source.h"

namespace minicpm::cli {

struct WatchAnswer {
  std::string text;           // without reasoning
  std::string finish_reason;  // "stop", "length", "context"
  int64_t n_prompt_tokens = 0;
  int64_t n_tokens = 0;
  int64_t n_encoded_views = 0;
  int64_t n_reused_views = 0;
  double image_encode_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  double total_ms = 0;
};

class Answerer {
 public:
  virtual ~Answerer() = default;
  // nullopt: interrupted.
  virtual Result<std::optional<WatchAnswer>> Answer(const LiveFrame& frame) = 0;
};

// One answer and all that belongs to it.
struct WatchEvent {
  int64_t number = 0;  // of the answer, from 1
  int64_t frame = 0;
  double source_time_s = 0;
  int64_t frame_unix_ms = 0;
  int64_t answer_unix_ms = 0;
  std::string file;  // of a folder
  int width = 0;
  int height = 0;
  WatchAnswer answer;
  std::optional<double> change;  // against the last picture that was answered; null: first one, or not measured
  int64_t dropped_frames = 0;    // since the answer before: came and were never looked at
  int64_t skipped_frames = 0;    // since the answer before: looked at, not asked about (--every, --on-change)
  std::optional<bool> alert;     // null: no condition, or it could not be evaluated
  bool alarm = false;            // raised by this answer
};

class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual Status OnAnswer(const WatchEvent& event) = 0;
  // Every frame that was looked at, after its answer if it got one.
  virtual Status OnFrame(const LiveFrame& /*frame*/) { return {}; }
  virtual void OnWarning(const std::string& sentence) = 0;
};

struct WatchRules {
  double every_s = 0;               // seconds of the source between two frames that are asked about
  std::optional<double> on_change;  // ask only when the measure of change is above this
  int64_t max_answers = 0;          // 0: no end
  double stop_after_s = 0;          // seconds of the source; 0: no end
  bool alarm_every = false;         // at every alert instead of where alerts begin
  std::function<Result<bool>(const std::string& text)> is_alert;  // may be empty
  std::function<int64_t()> unix_ms;                               // the wall clock
};

struct WatchSummary {
  int64_t n_answers = 0;
  int64_t n_looked_at = 0;
  int64_t n_arrived = 0;
  int64_t n_alarms = 0;
  int64_t n_encoded_views = 0;
  int64_t n_reused_views = 0;
  double answer_ms = 0;  // of all answers
};

// Until the source ends, a rule says so, or `cancel` is set (may be null). Errors: of the source, the answerer or the
// sink.
Result<WatchSummary> Watch(LiveSource& source, Answerer& answerer, WatchSink& sink, const WatchRules& rules,
                           const std::atomic<bool>* cancel);

}  // namespace minicpm::cli
