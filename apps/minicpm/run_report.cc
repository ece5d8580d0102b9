// Implementation of run_report.h.
#include "run_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Microseconds are enough, and shorter to read.
double Round(double ms) { return std::round(std::max(ms, 0.0) * 1000) / 1000; }

}  // namespace

std::string RunReportJson(const RunReport& r) {
  Json json;
  json["text"] = r.answer.text;
  json["reasoning"] = r.answer.reasoning;
  json["token_ids"] = r.result.token_ids;
  json["finish_reason"] = FinishReasonName(r.result.finish_reason);
  json["usage"] = {{"prompt_tokens", r.result.n_prompt_tokens},    {"completion_tokens", r.result.token_ids.size()},
                   {"image_tokens", r.result.n_image_tokens},      {"audio_tokens", r.result.n_audio_tokens},
                   {"video_tokens", r.result.n_video_tokens},      {"image_views", r.result.n_image_views},
                   {"encoded_views", r.result.n_encoded_views},    {"reused_views", r.result.n_reused_views},
                   {"cached_tokens", r.result.n_cached_tokens},    {"drafted_tokens", r.result.n_drafted_tokens},
                   {"accepted_tokens", r.result.n_accepted_tokens}};
  // Nothing was generated (cancelled early): then there is no first token, and its time is the time that passed.
  const double first_ms = r.result.token_ids.empty() ? r.result.total_ms : r.result.first_token_ms;
  json["timing_ms"] = {{"load", Round(r.load_ms)},
                       {"image_decode", Round(r.image_decode_ms + r.result.frame_decode_ms)},
                       {"image_encode", Round(r.result.image_encode_ms)},
                       {"audio_encode", Round(r.result.audio_encode_ms)},
                       {"prefill", Round(r.result.prefill_ms)},
                       {"first_token", Round(r.image_decode_ms + first_ms)},
                       {"decode", Round(r.result.decode_ms)},
                       {"total", Round(r.total_ms)}};
  json["model"] = {{"family", r.family},
                   {"weights_sha256", nullptr},
                   {"engine", "native"},
                   {"isa", r.isa},
                   {"threads", r.n_threads}};
  if (r.weights_sha256.has_value()) json["model"]["weights_sha256"] = *r.weights_sha256;
  json["seed"] = r.seed;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace minicpm::cli
