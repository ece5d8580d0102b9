// What stands between a live source and the loop of `minicpm watch`: a source that comes back after it broke, and one
// that shows every frame to a recorder while the loop is busy. Not for opening sources (video/live_source.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "video/live_source.h"

namespace minicpm::cli {

// Threads: Next by one user, the others from any thread. Opens the source again when it fails or ends, after 1, 2, 4
// ... 30 s. Frames go on being counted, and their time goes on as the wall clock did.
class ReconnectingSource : public LiveSource {
 public:
  struct Options {
    std::function<Result<std::unique_ptr<LiveSource>>()> open;
    std::function<void(const std::string&)> note;  // one sentence each time
    // Waits so many seconds, less when `cancel` is set.
    std::function<void(double seconds, const std::atomic<bool>* cancel)> wait = WaitFor;
    std::function<double()> now_s;          // a clock that never goes back
    std::optional<double> give_up_after_s;  // without a frame; then the last error is returned
  };
  // `source` is open already.
  ReconnectingSource(std::unique_ptr<LiveSource> source, Options options);

  Result<std::optional<LiveFrame>> Next(const std::atomic<bool>* cancel) override;
  std::vector<std::string> TakeWarnings() override;
  int64_t n_arrived() const override { return n_arrived_.load(); }
  double fps() const override { return fps_; }

  static void WaitFor(double seconds, const std::atomic<bool>* cancel);

 private:
  LiveFrame Continue(LiveFrame frame);
  // True when it is open again, false when cancelled. `error` is why it is not.
  Result<bool> Reopen(Error error, const std::atomic<bool>* cancel);

  std::unique_ptr<LiveSource> source_;  // null while it is away
  const Options options_;
  const double fps_;
  double last_frame_s_;  // by now_s
  double backoff_s_;
  bool reopened_ = false;  // no frame since
  int64_t n_before_ = 0;   // frames of the sources before
  std::atomic<int64_t> n_arrived_{0};
  double time_offset_s_ = 0;
  double last_time_s_ = 0;  // of the last frame that was handed out
  int64_t last_unix_ms_ = 0;
  std::mutex mutex_;  // guards warnings_, which another thread may take
  std::vector<std::string> warnings_;
};

// Fetches frames on a thread of its own, shows each to `on_frame` there, and hands out the newest.
class ObservedSource : public LiveSource {
 public:
  using Observer = std::function<Status(const LiveFrame&)>;
  // Lifetime: `source` and what the observer uses outlive this.
  ObservedSource(LiveSource& source, Observer on_frame);
  ~ObservedSource() override;
  ObservedSource(const ObservedSource&) = delete;
  ObservedSource& operator=(const ObservedSource&) = delete;

  // Errors: also the observer's.
  Result<std::optional<LiveFrame>> Next(const std::atomic<bool>* cancel) override;
  std::vector<std::string> TakeWarnings() override { return source_.TakeWarnings(); }
  int64_t n_arrived() const override { return source_.n_arrived(); }
  double fps() const override { return source_.fps(); }

 private:
  void Pump();

  LiveSource& source_;
  const Observer on_frame_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<LiveFrame> newest_;
  bool ended_ = false;
  std::optional<Error> error_;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace minicpm::cli
