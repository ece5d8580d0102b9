// What `minicpm bench` prints: a table for people, and the JSON object of docs/json/bench.schema.json, whose keys are
// only ever added.
#pragma once

#include <string>

#include "measure/measure_model.h"

namespace minicpm::cli {

// One object, one line, ending in a newline.
std::string BenchReportJson(const ModelBenchReport& report, const ModelBenchOptions& options);
// Several lines, each ending in a newline.
std::string BenchReportTable(const ModelBenchReport& report, const ModelBenchOptions& options);

}  // namespace minicpm::cli
