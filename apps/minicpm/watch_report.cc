// Implementation of watch_report.h.
#include "watch_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "alert_command.h"

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLastMs = 253'402'300'799'999;  // the end of the year 9999

double Round(double value, double steps) { return std::round(value * steps) / steps; }
double Ms(double ms) { return Round(std::max(ms, 0.0), 1000); }

std::string Seconds(double s) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", s);
  return text;
}

}  // namespace

std::string Rfc3339(int64_t unix_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(std::clamp<int64_t>(unix_ms, 0, kLastMs))};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

std::string WatchLine(const WatchEvent& e) {
  Json json;
  json["time"] = Rfc3339(e.answer_unix_ms);
  json["answer"] = e.number;
  json["frame"] = e.frame;
  json["frame_time"] = Rfc3339(e.frame_unix_ms);
  json["source_time_s"] = Round(e.source_time_s, 1e6);
  json["latency_ms"] = std::max<int64_t>(e.answer_unix_ms - e.frame_unix_ms, 0);
  json["text"] = e.answer.text;
  json["finish_reason"] = e.answer.finish_reason;
  json["alert"] = nullptr;
  if (e.alert.has_value()) json["alert"] = *e.alert;
  json["alarm"] = e.alarm;
  json["change"] = nullptr;
  if (e.change.has_value()) json["change"] = Round(*e.change, 1000);
  json["encoded_views"] = e.answer.n_encoded_views;
  json["reused_views"] = e.answer.n_reused_views;
  json["dropped_frames"] = e.dropped_frames;
  json["skipped_frames"] = e.skipped_frames;
  json["width"] = e.width;
  json["height"] = e.height;
  if (!e.file.empty()) json["file"] = e.file;
  json["usage"] = {{"prompt_tokens", e.answer.n_prompt_tokens}, {"completion_tokens", e.answer.n_tokens}};
  json["timing_ms"] = {{"image_encode", Ms(e.answer.image_encode_ms)},
                       {"prefill", Ms(e.answer.prefill_ms)},
                       {"decode", Ms(e.answer.decode_ms)},
                       {"total", Ms(e.answer.total_ms)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> AlertVariables(const WatchEvent& e, const std::string& source) {
  return {EnvironmentVariable("MINICPM_ALERT_TIME", Rfc3339(e.answer_unix_ms)),
          EnvironmentVariable("MINICPM_ALERT_FRAME", std::to_string(e.frame)),
          EnvironmentVariable("MINICPM_ALERT_SOURCE_TIME_S", Seconds(e.source_time_s)),
          EnvironmentVariable("MINICPM_ALERT_TEXT", e.answer.text),
          EnvironmentVariable("MINICPM_ALERT_ANSWER", std::to_string(e.number)),
          EnvironmentVariable("MINICPM_ALERT_FILE", e.file),
          EnvironmentVariable("MINICPM_ALERT_SOURCE", source)};
}

std::string WatchCaption(const WatchEvent& e) {
  std::string caption = "#" + std::to_string(e.frame) + "  " + Seconds(e.source_time_s) + " s";
  if (e.alert.value_or(false)) caption += "  ALERT";
  return caption + "\n" + e.answer.text;
}

}  // namespace minicpm::cli
