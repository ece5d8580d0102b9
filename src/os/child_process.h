// Runs another program to its end: with input, a time limit, and nothing left behind. Not for talking with it while it
// runs, and not for reading what it prints.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/status.h"

namespace minicpm {

struct ChildCommand {
  std::vector<std::string> words;        // the program's path (no search along PATH) and its arguments
  std::vector<std::string> environment;  // "NAME=value", all of it
  std::string input;                     // its stdin: a file in memory, so that it need not be read
  double time_limit_s = 30;
};

struct ChildEnd {
  enum class Kind { kExited, kSignalled, kTimedOut, kCancelled };
  Kind kind = Kind::kExited;
  int number = 0;  // exit code or signal
};
// "exit code 3", "signal 9", "killed after 30 s": for messages.
std::string Describe(const ChildEnd& end, double time_limit_s);

// Starts the program in a process group of its own, with default signals and no open files but stdin, stdout and
// stderr; what it prints to stdout goes to this program's stderr, because stdout belongs to the answers. Waits. At the
// time limit, or when `cancel` is set (looked at about 20 times a second), its group gets SIGTERM, and SIGKILL two
// seconds later. Processes that it left running in the background are its own affair when it ended by itself.
// Errors: kNotFound, kIo when it cannot be started. Threads: safe from any number at once.
Result<ChildEnd> RunChild(const ChildCommand& command, const std::atomic<bool>* cancel = nullptr);

}  // namespace minicpm
