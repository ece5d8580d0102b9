// Implementation of alert_command.h.
#include "alert_command.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "os/child_process.h"

namespace minicpm::cli {
namespace {

constexpr size_t kMaxVariableBytes = 32 * 1024;  // Linux takes 128 KiB for each

}  // namespace

AlertCommand::AlertCommand(Options options) : options_(std::move(options)), thread_([this] { Work(); }) {}

AlertCommand::~AlertCommand() {
  size_t n_dropped = 0;
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    const auto limit = std::chrono::duration<double>(std::min(options_.time_limit_s, 1e7));
    changed_.wait_for(lock, limit, [this] { return waiting_.empty() && !running_; });
    n_dropped = waiting_.size();
    waiting_.clear();
    kill_ = true;
    changed_.notify_all();
  }
  thread_.join();
  if (n_dropped > 0)
    options_.warn("--exec: " + std::to_string(n_dropped) + " commands were not started before the end");
}

void AlertCommand::Start(Alarm alarm) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < options_.max_waiting) {
      waiting_.push_back(std::move(alarm));
      changed_.notify_all();
      return;
    }
  }
  options_.warn("--exec: the command is too slow, " + std::to_string(options_.max_waiting) +
                " alarms wait for it already; this one is dropped");
}

void AlertCommand::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Alarm alarm = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = true;
    lock.unlock();
    RunOne(alarm);
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

void AlertCommand::RunOne(const Alarm& alarm) {
  ChildCommand child;
  child.words = {"/bin/sh", "-c", options_.command};
  child.environment = options_.environment;
  child.environment.insert(child.environment.end(), alarm.variables.begin(), alarm.variables.end());
  child.input = alarm.input;
  child.time_limit_s = options_.time_limit_s;
  const auto end = RunChild(child, &kill_);
  if (!end.has_value()) {
    options_.warn("--exec: " + end.error().message);
  } else if (end->kind != ChildEnd::Kind::kExited || end->number != 0) {
    options_.warn("--exec: the command failed: " + Describe(*end, options_.time_limit_s));
  }
  ++n_ended_;
}

std::string EnvironmentVariable(const std::string& name, std::string_view value) {
  std::string text(value.substr(0, kMaxVariableBytes));
  if (text.size() < value.size()) text.resize(text.size() - IncompleteUtf8Tail(text));
  std::erase(text, '\0');
  return name + "=" + text;
}

}  // namespace minicpm::cli
