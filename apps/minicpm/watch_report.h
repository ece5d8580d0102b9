// What `minicpm watch` says about an answer: the JSON line, the variables of the alarm's command, the words on the
// video. Not for printing.
#pragma once

#include <string>
#include <vector>

#include "watch_loop.h"

namespace minicpm::cli {

// "2026-11-30T23:59:59.007Z". Requires: a time of the years 1970 to 9999; others are clamped.
std::string Rfc3339(int64_t unix_ms);

// One line with its end, as docs/json/watch.schema.json says.
std::string WatchLine(const WatchEvent& event);

// MINICPM_ALERT_TIME, _FRAME, _SOURCE_TIME_S, _TEXT, _ANSWER, _FILE, and _SOURCE, the source's address.
std::vector<std::string> AlertVariables(const WatchEvent& event, const std::string& source);

// A line about the frame, then the answer.
std::string WatchCaption(const WatchEvent& event);

}  // namespace minicpm::cli
