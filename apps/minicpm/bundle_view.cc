// Implementation of bundle_view.h.
#include "bundle_view.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "store/json.h"

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

// "absent", "measured", or "other weights" when the card was written for another file.
const char* AccuracyState(const ModelFacts& facts) {
  if (facts.accuracy_json.empty()) return "not measured";
  const auto card = JsonObject::Parse(facts.accuracy_json, kAccuracyFileName);
  if (!card.has_value()) return "unreadable";
  const auto sha256 = card->StringOr("weights_sha256", "");
  return sha256.has_value() && *sha256 == facts.bundle->weights.sha256 ? "measured" : "for other weights";
}

std::string Explained(const std::string& format) {
  if (format == "INT4") return "INT4 (4.25 bits, groups of 32)";
  if (format == "INT8") return "INT8 (7-bit weights, one scale per row)";
  if (format == "source") return "as in the source";
  return Printable(format, 40);
}

std::string GroupText(const BundleGroup& group) {
  char text[160];
  std::snprintf(text, sizeof text, "%-22s %8.1f MB  ", Printable(group.name, 60).c_str(),
                static_cast<double>(group.n_bytes) / 1e6);
  std::string line = text + Explained(group.format);
  if (group.relative_rms.has_value()) {
    std::snprintf(text, sizeof text, ", error %.2f %%", 100 * *group.relative_rms);
    line += text;
  }
  return line;
}

}  // namespace

Json BundleJson(const ModelFacts& facts) {
  if (!facts.bundle.has_value()) return nullptr;
  const BundleManifest& b = *facts.bundle;
  Json json = {{"format_version", kBundleFormatVersion},
               {"tool", b.tool},
               {"created_utc", b.created_utc},
               {"synthetic", b.synthetic},
               {"source", b.source}};
  json["sources"] = Json::array();
  for (const BundleFile& file : b.sources) {
    json["sources"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  json["recipe"] = Json::object();
  for (const auto& [key, value] : b.recipe) json["recipe"][key] = value;
  json["groups"] = Json::array();
  for (const BundleGroup& g : b.groups) {
    json["groups"].push_back({{"name", g.name},
                              {"format", g.format},
                              {"tensors", g.n_tensors},
                              {"parameters", g.n_parameters},
                              {"bytes", g.n_bytes},
                              {"relative_rms", g.relative_rms.has_value() ? Json(*g.relative_rms) : Json(nullptr)}});
  }
  json["dropped_tensors"] = b.dropped.size();
  json["selftest"] = facts.has_selftest;
  json["accuracy"] = AccuracyState(facts);
  return json;
}

std::vector<NamedRow> BundleRows(const ModelFacts& facts) {
  if (!facts.bundle.has_value()) return {};
  const BundleManifest& b = *facts.bundle;
  std::vector<NamedRow> rows;
  for (const BundleGroup& group : b.groups) rows.push_back({rows.empty() ? "formats" : "", GroupText(group)});
  rows.push_back({"made", Printable(b.created_utc, 40) + " by " + Printable(b.tool, 60) + " from " +
                              Printable(b.source, 200) +
                              (b.synthetic ? " (random weights: answers mean nothing)" : "")});
  if (!b.dropped.empty()) rows.push_back({"", std::to_string(b.dropped.size()) + " tensors of the source left out"});
  rows.push_back({"accuracy", AccuracyState(facts)});
  rows.push_back({"self-test", facts.has_selftest ? "present (`minicpm verify` runs it)" : "none"});
  return rows;
}

}  // namespace minicpm::cli
