// Runs the user's command when the alarm is raised, beside the watching. Not for deciding when (alert.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace minicpm::cli {

// One command at a time, in the order of the alarms, on a thread of its own: a slow command never delays an answer.
class AlertCommand {
 public:
  struct Options {
    std::string command;                           // for /bin/sh -c
    std::vector<std::string> environment;          // "NAME=value"
    double time_limit_s = 30;                      // then the command and its group are killed
    size_t max_waiting = 100;                      // alarms beyond are dropped, with a warning
    std::function<void(const std::string&)> warn;  // a sentence; called on the command's thread or Start's
  };
  explicit AlertCommand(Options options);
  // Waits for what runs and what waits, all together at most the time limit; then kills and drops.
  ~AlertCommand();
  AlertCommand(const AlertCommand&) = delete;
  AlertCommand& operator=(const AlertCommand&) = delete;

  struct Alarm {
    std::string input;                   // the command's stdin
    std::vector<std::string> variables;  // "NAME=value", beside the environment
  };
  void Start(Alarm alarm);
  // Commands that ended, well or not.
  int64_t n_ended() const { return n_ended_.load(); }

 private:
  void Work();
  void RunOne(const Alarm& alarm);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Alarm> waiting_;
  bool running_ = false;
  bool closing_ = false;
  std::atomic<bool> kill_{false};
  std::atomic<int64_t> n_ended_{0};
  std::thread thread_;  // last: it uses all the others
};

// "NAME=value" as an environment can hold it: without NUL, at most 32 KiB of whole characters.
std::string EnvironmentVariable(const std::string& name, std::string_view value);

}  // namespace minicpm::cli
