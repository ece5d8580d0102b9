// How `minicpm inspect` shows a bundle: formats, provenance, what quantising cost. Not for models in general
// (inspect.cc) or for checking (verify.cc).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model_facts.h"

namespace minicpm::cli {

// Null when the model is no bundle.
nlohmann::ordered_json BundleJson(const ModelFacts& facts);

// Name and text of each row of the table; a row without a name continues the one above. Empty when it is no bundle.
struct NamedRow {
  std::string name;
  std::string text;
};
std::vector<NamedRow> BundleRows(const ModelFacts& facts);

}  // namespace minicpm::cli
