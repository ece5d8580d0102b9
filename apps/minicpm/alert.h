// When an answer is an alert, and when an alert raises the alarm. Not for what the alarm does (alert_command.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace minicpm::cli {

// A regular expression in PCRE2's dialect, with Unicode properties. Searched for anywhere in a text.
// Threads: const methods from any number of threads.
class AlertPattern {
 public:
  // Errors: kInvalidArgument, saying what is wrong and at which character.
  static Result<AlertPattern> Compile(std::string_view pattern);
  AlertPattern(AlertPattern&&) noexcept;
  AlertPattern& operator=(AlertPattern&&) noexcept;
  ~AlertPattern();

  // Bytes of `text` that are not UTF-8 count as U+FFFD. Errors: kResourceExhausted when the search takes more steps
  // than a sensible pattern needs.
  Result<bool> Matches(std::string_view text) const;

 private:
  struct Impl;
  explicit AlertPattern(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns "this answer is an alert" into "raise the alarm": once when alerts begin, and again only after an answer that
// was none; or, with every = true, at every alert.
class AlertTrigger {
 public:
  explicit AlertTrigger(bool every) : every_(every) {}
  bool Update(bool alert) {
    const bool raise = alert && (every_ || !was_alert_);
    was_alert_ = alert;
    return raise;
  }

 private:
  const bool every_;
  bool was_alert_ = false;
};

}  // namespace minicpm::cli
