// Console: everything that the program writes. Answers go to stdout, all else to stderr; a terminal gets progress and
// dim text, a pipe gets neither. Not for what the words are.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"

namespace minicpm::cli {

// Threads: every method from any thread.
class Console : public LogSink {
 public:
  // quiet: no progress and no notes; warnings and errors still come.
  explicit Console(bool quiet);

  // To stdout, at once. Control characters other than newline and tab are not passed on to a terminal.
  void Answer(std::string_view text);
  // Ends the answer's line, when it has one that is not ended.
  void EndAnswer();
  // The model's reasoning, to stderr, dimmed on a terminal. EndReasoning ends its line.
  void Reasoning(std::string_view text);
  void EndReasoning();

  // One line each on stderr, beginning with "minicpm: ". Notes are dropped when quiet.
  void Error(std::string_view sentence);
  void Note(std::string_view sentence);
  void Write(LogLevel level, std::string_view message) override;

  // Progress, on a terminal only: lines that stay, and one line that the next output wipes away.
  void Progress(std::string_view line);
  void Transient(std::string_view line);
  bool shows_progress() const { return shows_progress_; }

  bool out_is_terminal() const { return out_is_terminal_; }
  // Something could not be written to stdout, for example because the disk is full.
  bool out_failed() const { return out_failed_; }

 private:
  void WipeTransient();
  void EndOpenLines();
  void Line(std::string_view prefix, std::string_view text);

  std::mutex mutex_;
  const bool quiet_;
  const bool out_is_terminal_;
  const bool err_is_terminal_;
  const bool shows_progress_;
  bool out_failed_ = false;
  bool answer_open_ = false;     // stdout stands inside a line
  bool reasoning_open_ = false;  // stderr stands inside a line of reasoning
  bool transient_ = false;
};

// `text` with control characters (C0 except newline and tab, DEL, C1) replaced by '?': what a terminal may be given.
std::string WithoutControls(std::string_view text);

}  // namespace minicpm::cli
