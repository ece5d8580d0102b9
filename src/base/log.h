// Where library code may say something: a sink handed in by the program. The library itself never prints.
#pragma once

#include <string_view>

namespace minicpm {

enum class LogLevel { kInfo, kWarning };

// Threads: Write may be called from any thread. Lifetime: outlives everything that was given a pointer to it.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(LogLevel level, std::string_view message) = 0;
};

}  // namespace minicpm
