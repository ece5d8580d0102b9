// Implementation of console.h.
#include "console.h"

#include <unistd.h>

namespace minicpm::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kWipeLine = "\r\x1b[K";

bool Put(std::FILE* file, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size();
}

}  // namespace

std::string WithoutControls(std::string_view text) {
  std::string s;
  s.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      s += '?';
    } else if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      s += '?';  // U+0080..U+009F
      ++i;
    } else {
      s += text[i];
    }
  }
  return s;
}

Console::Console(bool quiet)
    : quiet_(quiet),
      out_is_terminal_(isatty(STDOUT_FILENO) == 1),
      err_is_terminal_(isatty(STDERR_FILENO) == 1),
      shows_progress_(err_is_terminal_ && !quiet) {}

void Console::WipeTransient() {
  if (transient_) Put(stderr, kWipeLine);
  transient_ = false;
}

// Both streams may show on the same terminal: a new message begins on a line of its own.
void Console::EndOpenLines() {
  WipeTransient();
  if (reasoning_open_) Put(stderr, "\n");
  reasoning_open_ = false;
  if (answer_open_ && out_is_terminal_ && err_is_terminal_) Put(stderr, "\n");
}

void Console::Line(std::string_view prefix, std::string_view text) {
  EndOpenLines();
  std::string line(prefix);
  line += err_is_terminal_ ? WithoutControls(text) : std::string(text);
  line += '\n';
  Put(stderr, line);
  std::fflush(stderr);
}

void Console::Answer(std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  if (transient_ || reasoning_open_) {
    WipeTransient();
    if (reasoning_open_) Put(stderr, "\n");
    reasoning_open_ = false;
    std::fflush(stderr);
  }
  const bool written = out_is_terminal_ ? Put(stdout, WithoutControls(text)) : Put(stdout, text);
  if (!written || std::fflush(stdout) != 0) out_failed_ = true;
  answer_open_ = text.back() != '\n';
}

void Console::EndAnswer() {
  {
    const std::lock_guard lock(mutex_);
    if (!answer_open_) return;
  }
  Answer("\n");
}

void Console::Reasoning(std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  WipeTransient();
  if (err_is_terminal_) {
    Put(stderr, std::string(kDim) + WithoutControls(text) + std::string(kPlain));
  } else {
    Put(stderr, text);
  }
  std::fflush(stderr);
  reasoning_open_ = text.back() != '\n';
}

void Console::EndReasoning() {
  const std::lock_guard lock(mutex_);
  if (!reasoning_open_) return;
  Put(stderr, "\n");
  std::fflush(stderr);
  reasoning_open_ = false;
}

void Console::Error(std::string_view sentence) {
  const std::lock_guard lock(mutex_);
  Line("minicpm: ", sentence);
}

void Console::Note(std::string_view sentence) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  Line("minicpm: ", sentence);
}

void Console::Write(LogLevel level, std::string_view message) {
  if (level == LogLevel::kInfo && quiet_) return;
  const std::lock_guard lock(mutex_);
  Line(level == LogLevel::kWarning ? "minicpm: warning: " : "minicpm: ", message);
}

void Console::Progress(std::string_view line) {
  if (!shows_progress_) return;
  const std::lock_guard lock(mutex_);
  Line("", line);
}

void Console::Transient(std::string_view line) {
  if (!shows_progress_) return;
  const std::lock_guard lock(mutex_);
  EndOpenLines();
  Put(stderr, std::string(kWipeLine) + WithoutControls(line));
  std::fflush(stderr);
  transient_ = true;
}

}  // namespace minicpm::cli
