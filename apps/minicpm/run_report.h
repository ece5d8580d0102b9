// The JSON object of `minicpm run --json`; its schema is docs/json/run.schema.json. Keys are only ever added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/session.h"

namespace minicpm::cli {

struct RunReport {
  GenerationResult result;
  SplitAnswer answer;
  double load_ms = 0;
  double image_decode_ms = 0;  // file bytes to pixels, and laying out the prompt
  double total_ms = 0;
  std::string family;
  std::optional<std::string> weights_sha256;
  std::string isa;
  int n_threads = 0;
  uint64_t seed = 0;
};

// One object, one line, ending in a newline.
std::string RunReportJson(const RunReport& report);

}  // namespace minicpm::cli
