// Implementation of child_process.h with posix_spawn, which is safe in a program with threads.
#include "os/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include "os/clock.h"
#include "os/memory_file.h"

namespace minicpm {
namespace {

constexpr double kGraceMs = 2000;
constexpr double kLongestNapMs = 50;

std::unexpected<Error> SystemError(const std::string& program, const char* action, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Fail(code, Printable(program, 400) + ": " + action + ": " + std::generic_category().message(error));
}

// What posix_spawn wants as an array that ends with null. Lifetime: `words` outlives it.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnSettings {
 public:
  SpawnSettings(const std::string& input_path, int* error) {
    *error = posix_spawn_file_actions_init(&actions_);
    if (*error != 0) return;
    *error = posix_spawnattr_init(&attributes_);
    if (*error != 0) {
      posix_spawn_file_actions_destroy(&actions_);
      return;
    }
    made_ = true;
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP));
    // Opened anew in the child: the file starts at its beginning and is not shared.
    const int steps[] = {posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, input_path.c_str(), O_RDONLY, 0),
                         posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO),
                         posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1)};
    for (const int step : steps) *error = std::max(*error, step);
  }
  ~SpawnSettings() {
    if (!made_) return;
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  bool made_ = false;
  posix_spawn_file_actions_t actions_ = {};
  posix_spawnattr_t attributes_ = {};
};

// Whether the child has ended; it stays a zombie, so that its number, which is its group's too, cannot be given to
// somebody else before the group was killed.
Result<bool> HasEnded(pid_t pid, const std::string& program) {
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != EINTR) return SystemError(program, "cannot be waited for", errno);
  }
  return info.si_pid == pid;
}

Result<ChildEnd> Reap(pid_t pid, const std::string& program) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return SystemError(program, "cannot be waited for", errno);
  }
  if (WIFEXITED(status)) return ChildEnd{ChildEnd::Kind::kExited, WEXITSTATUS(status)};
  return ChildEnd{ChildEnd::Kind::kSignalled, WTERMSIG(status)};
}

// Waits until the child has ended, `deadline_ms` has passed or `cancel` is set; whether it has ended.
Result<bool> AwaitEnd(pid_t pid, const std::string& program, double deadline_ms, const std::atomic<bool>* cancel) {
  for (double nap_ms = 1;; nap_ms = std::min(2 * nap_ms, kLongestNapMs)) {
    MINICPM_ASSIGN(const bool ended, HasEnded(pid, program));
    if (ended) return true;
    const double left_ms = deadline_ms - NowMs();
    if (left_ms <= 0 || (cancel != nullptr && cancel->load(std::memory_order_relaxed))) return false;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(std::min(nap_ms, left_ms)));
  }
}

}  // namespace

std::string Describe(const ChildEnd& end, double time_limit_s) {
  char text[64];
  switch (end.kind) {
    case ChildEnd::Kind::kExited:
      std::snprintf(text, sizeof text, "exit code %d", end.number);
      break;
    case ChildEnd::Kind::kSignalled:
      std::snprintf(text, sizeof text, "signal %d", end.number);
      break;
    case ChildEnd::Kind::kTimedOut:
      std::snprintf(text, sizeof text, "killed after %g s", time_limit_s);
      break;
    case ChildEnd::Kind::kCancelled:
      std::snprintf(text, sizeof text, "killed at the end of the program");
      break;
  }
  return text;
}

Result<ChildEnd> RunChild(const ChildCommand& command, const std::atomic<bool>* cancel) {
  if (command.words.empty()) return Fail(ErrorCode::kInvalidArgument, "expected a command, found none");
  const std::string& program = command.words.front();
  MINICPM_ASSIGN(const MemoryFile input, MemoryFile::Create(std::as_bytes(std::span(command.input))));
  int error = 0;
  const SpawnSettings settings(input.path(), &error);
  if (error != 0) return SystemError(program, "cannot be started", error);
  const std::vector<char*> words = Pointers(command.words);
  const std::vector<char*> environment = Pointers(command.environment);
  pid_t pid = -1;
  error =
      posix_spawn(&pid, program.c_str(), settings.actions(), settings.attributes(), words.data(), environment.data());
  if (error != 0) return SystemError(program, "cannot be started", error);

  MINICPM_ASSIGN(bool ended, AwaitEnd(pid, program, NowMs() + 1000 * command.time_limit_s, cancel));
  if (ended) return Reap(pid, program);
  const bool cancelled = cancel != nullptr && cancel->load(std::memory_order_relaxed);
  kill(-pid, SIGTERM);
  MINICPM_ASSIGN(ended, AwaitEnd(pid, program, NowMs() + kGraceMs, nullptr));
  kill(-pid, SIGKILL);  // also what the child left behind when it ended in time
  MINICPM_ASSIGN(const ChildEnd end, Reap(pid, program));
  return ChildEnd{cancelled ? ChildEnd::Kind::kCancelled : ChildEnd::Kind::kTimedOut, end.number};
}

}  // namespace minicpm
