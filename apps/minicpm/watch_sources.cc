// Implementation of watch_sources.h.
#include "watch_sources.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <utility>

namespace minicpm::cli {
namespace {

constexpr double kFirstBackoff_s = 1;
constexpr double kLongestBackoff_s = 30;
constexpr std::chrono::milliseconds kLookAtCancel(50);

bool Set(const std::atomic<bool>* flag) { return flag != nullptr && flag->load(std::memory_order_relaxed); }

}  // namespace

ReconnectingSource::ReconnectingSource(std::unique_ptr<LiveSource> source, Options options)
    : source_(std::move(source)),
      options_(std::move(options)),
      fps_(source_->fps()),
      last_frame_s_(options_.now_s()),
      backoff_s_(kFirstBackoff_s) {}

void ReconnectingSource::WaitFor(double seconds, const std::atomic<bool>* cancel) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!Set(cancel) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kLookAtCancel);
}

LiveFrame ReconnectingSource::Continue(LiveFrame frame) {
  if (reopened_) {
    const double passed_s = std::max<double>(static_cast<double>(frame.unix_ms - last_unix_ms_) / 1000, 0);
    time_offset_s_ = last_time_s_ + passed_s - frame.time_s;
    reopened_ = false;
  }
  backoff_s_ = kFirstBackoff_s;
  last_frame_s_ = options_.now_s();
  frame.number += n_before_;
  frame.time_s += time_offset_s_;
  last_time_s_ = frame.time_s;
  last_unix_ms_ = frame.unix_ms;
  return frame;
}

Result<bool> ReconnectingSource::Reopen(Error error, const std::atomic<bool>* cancel) {
  n_before_ = n_arrived_;
  source_.reset();  // a camera can be opened once only
  while (true) {
    const double away_s = options_.now_s() - last_frame_s_;
    if (options_.give_up_after_s.has_value() && away_s >= *options_.give_up_after_s) {
      return std::unexpected(std::move(error));
    }
    char again[64];
    std::snprintf(again, sizeof again, "; trying again in %g s", backoff_s_);
    options_.note(error.message + again);
    options_.wait(backoff_s_, cancel);
    backoff_s_ = std::min(2 * backoff_s_, kLongestBackoff_s);
    if (Set(cancel)) return false;
    auto source = options_.open();
    if (source.has_value()) {
      source_ = std::move(*source);
      reopened_ = true;
      return true;
    }
    error = std::move(source).error();
  }
}

Result<std::optional<LiveFrame>> ReconnectingSource::Next(const std::atomic<bool>* cancel) {
  Error error{ErrorCode::kIo, "the source is closed"};
  while (true) {
    if (source_ != nullptr) {
      auto frame = source_->Next(cancel);
      n_arrived_ = n_before_ + source_->n_arrived();
      {
        const std::lock_guard lock(mutex_);
        std::ranges::move(source_->TakeWarnings(), std::back_inserter(warnings_));
      }
      if (frame.has_value() && frame->has_value()) return Continue(std::move(**frame));
      if (Set(cancel)) return std::nullopt;
      error = frame.has_value() ? Error{ErrorCode::kIo, "the stream ended"} : std::move(frame).error();
    }
    MINICPM_ASSIGN(const bool open, Reopen(std::move(error), cancel));
    if (!open) return std::nullopt;
  }
}

std::vector<std::string> ReconnectingSource::TakeWarnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

ObservedSource::ObservedSource(LiveSource& source, Observer on_frame)
    : source_(source), on_frame_(std::move(on_frame)), thread_([this] { Pump(); }) {}

ObservedSource::~ObservedSource() {
  stop_ = true;
  thread_.join();
}

void ObservedSource::Pump() {
  while (!stop_) {
    auto frame = source_.Next(&stop_);
    Status observed;
    if (frame.has_value() && frame->has_value()) observed = on_frame_(**frame);
    const std::lock_guard lock(mutex_);
    if (!frame.has_value()) {
      error_ = std::move(frame).error();
    } else if (!observed.has_value()) {
      error_ = std::move(observed).error();
    } else if (frame->has_value()) {
      newest_ = std::move(**frame);
    } else {
      ended_ = true;
    }
    changed_.notify_all();
    if (ended_ || error_.has_value()) return;
  }
}

Result<std::optional<LiveFrame>> ObservedSource::Next(const std::atomic<bool>* cancel) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (Set(cancel)) return std::nullopt;
    // A frame that came before the end or the error is still worth an answer.
    if (newest_.has_value()) {
      std::optional<LiveFrame> frame = std::move(newest_);
      newest_.reset();
      return frame;
    }
    if (error_.has_value()) return std::unexpected(*error_);
    if (ended_) return std::nullopt;
    changed_.wait_for(lock, kLookAtCancel);
  }
}

}  // namespace minicpm::cli
