// `minicpm inspect`: what is in a model folder, as a table or as JSON (docs/json/inspect.schema.json).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "bundle_view.h"
#include "command.h"
#include "console.h"
#include "model_facts.h"
#include "models/blocks/model_config.h"

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    R"(Only configuration and file headers are read, so it is quick for a model of any size. A model that `minicpm run` would
refuse is refused here with the same sentence.

Examples:
  minicpm inspect models/MiniCPM-V-4_5
  minicpm inspect models/MiniCPM-V-4_5 --json
  minicpm inspect models/MiniCPM-V-4_5 --tensors
  minicpm inspect bundles/v45-int4)";

struct InspectFlags {
  std::string model;
  bool json = false;
  bool tensors = false;
  bool hash_weights = false;
};

int64_t Parameters(const ModelFacts& facts, const char* part_name) {
  for (const ModelSummary::Part& part : facts.summary.parts) {
    if (part.name == part_name) return part.n_parameters;
  }
  return 0;
}

int64_t AllParameters(const ModelFacts& facts) {
  int64_t n = 0;
  for (const ModelSummary::Part& part : facts.summary.parts) n += part.n_parameters;
  return n;
}

Amount NotUsed(const ModelFacts& facts) {
  Amount amount;
  for (const ModelSummary::Part& part : facts.summary.parts) {
    if (part.used) continue;
    amount.n_tensors += part.n_tensors;
    amount.n_bytes += part.n_bytes;
  }
  return amount;
}

const char* LanguageKind(const DecoderConfig& c) { return c.qk_norm ? "qwen3" : "qwen2"; }

Json AmountJson(const Amount& amount) { return {{"tensors", amount.n_tensors}, {"bytes", amount.n_bytes}}; }

Json VisionJson(const VisionConfig& c, int64_t n_parameters) {
  return {{"hidden", c.n_embed},
          {"layers", c.n_kept_layers()},
          {"heads", c.n_heads},
          {"ffn", c.n_ffn},
          {"patch", c.patch_px},
          {"image_side", c.image_px},
          {"drop_vision_last_layer", c.drop_last_layer},
          {"parameters", n_parameters}};
}

Json ResamplerJson(const ResamplerConfig& c, int64_t n_parameters) {
  return {{"queries", c.n_queries},
          {"out", c.n_embed},
          {"heads", c.n_heads()},
          {"temporal", c.temporal},
          {"parameters", n_parameters}};
}

Json LanguageJson(const DecoderConfig& c, int64_t n_parameters) {
  return {{"kind", LanguageKind(c)},  {"hidden", c.n_embed},       {"layers", c.n_layers}, {"heads", c.n_heads},
          {"kv_heads", c.n_kv_heads}, {"head_width", c.head_dim},  {"ffn", c.n_ffn},       {"vocab_rows", c.n_vocab},
          {"tied_head", c.tied_head}, {"parameters", n_parameters}};
}

// Short decimal forms of the floats, as the defaults were written.
double Clean(float v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(v));
  return std::strtod(text, nullptr);
}

Json SamplingJson(const SamplingOptions& s) {
  return {{"temperature", Clean(s.temperature)},
          {"top_k", s.top_k},
          {"top_p", Clean(s.top_p)},
          {"min_p", Clean(s.min_p)},
          {"repetition_penalty", Clean(s.repetition_penalty)}};
}

const char* TemplateName(TemplateState state) {
  switch (state) {
    case TemplateState::kAbsent:
      return "absent";
    case TemplateState::kKnown:
      return "known";
    case TemplateState::kDifferent:
      return "different";
  }
  return "absent";
}

Json FactsJson(const ModelFacts& facts, const InspectFlags& flags, const std::optional<std::string>& sha256) {
  const ModelConfig& c = facts.engine->config();
  Json json;
  json["family"] = facts.engine->family_name();
  json["version"] = c.version;
  json["architecture"] = facts.architecture;
  json["parameters"] = AllParameters(facts);
  json["weight_bytes"] = facts.summary.weight_bytes;
  json["weights_sha256"] = sha256.has_value() ? Json(*sha256) : Json(nullptr);
  for (const auto& [name, bytes] : facts.files) json["files"].push_back({{"name", name}, {"bytes", bytes}});
  json["dtypes"] = Json::object();
  for (const auto& [dtype, amount] : facts.dtypes) json["dtypes"][dtype] = AmountJson(amount);
  json["vision"] = VisionJson(c.vision, Parameters(facts, "vision"));
  json["resampler"] = ResamplerJson(c.resampler, Parameters(facts, "resampler"));
  json["language"] = LanguageJson(c.decoder, Parameters(facts, "language"));
  json["not_used"] = AmountJson(NotUsed(facts));
  json["context"] = c.decoder.max_positions;
  json["default_context"] = facts.engine->default_context();
  json["kv_bytes_per_position"] = facts.kv_bytes_per_position;
  json["max_slices"] = c.max_slices;
  json["tokenizer"] = {{"source", facts.tokenizer.source},
                       {"vocab", facts.tokenizer.n_vocab},
                       {"merges", facts.tokenizer.n_merges},
                       {"added_tokens", facts.tokenizer.n_added}};
  json["chat_template"] = TemplateName(facts.chat_template);
  json["stops"] = Json::array();
  for (const auto& [id, text] : facts.stops) json["stops"].push_back({{"id", id}, {"text", text}});
  json["sampling"] = SamplingJson(facts.engine->default_sampling());
  json["licence"] = facts.licence_file.empty() ? Json(nullptr) : Json(facts.licence_file);
  json["licence_title"] = facts.summary.licence.empty() ? Json(nullptr) : Json(facts.summary.licence);
  json["warnings"] = facts.warnings;
  json["bundle"] = BundleJson(facts);
  if (flags.tensors) {
    json["tensors"] = Json::array();
    for (const ModelFacts::Tensor& t : facts.tensors) {
      json["tensors"].push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}});
    }
  }
  return json;
}

// "8.71 B", "1.35 M", "812".
std::string Scaled(double value, const char* const (&units)[5], double step) {
  int unit = 0;
  while (value >= step && unit < 4) {
    value /= step;
    ++unit;
  }
  char text[48];
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s", digits, value, units[unit]);
  return text;
}

std::string Count(int64_t n) {
  return Scaled(static_cast<double>(n), {"", " thousand", " million", " billion", " trillion"}, 1000);
}
std::string Bytes(uint64_t n) {
  return Scaled(static_cast<double>(n), {" bytes", " KiB", " MiB", " GiB", " TiB"}, 1024);
}

void Row(std::string& out, const char* name, const std::string& value) {
  char head[24];
  std::snprintf(head, sizeof head, "  %-11s ", name);
  out += head + value + "\n";
}

std::string N(int64_t n) { return std::to_string(n); }

void TowerRows(const ModelFacts& facts, std::string& out) {
  const ModelConfig& c = facts.engine->config();
  const VisionConfig& v = c.vision;
  Row(out, "vision",
      N(v.n_kept_layers()) + " layers of width " + N(v.n_embed) + ", " + N(v.n_heads) + " heads, feed-forward " +
          N(v.n_ffn) + ", patches of " + N(v.patch_px) + " px; " + Count(Parameters(facts, "vision")) + " parameters");
  if (v.drop_last_layer) Row(out, "", "(the last of " + N(v.n_layers) + " layers is not run: drop_vision_last_layer)");
  const ResamplerConfig& r = c.resampler;
  Row(out, "resampler",
      N(r.n_queries) + " tokens for each view, width " + N(r.n_embed) + ", " + N(r.n_heads()) + " heads" +
          (r.temporal ? ", takes groups of frames" : "") + "; " + Count(Parameters(facts, "resampler")) +
          " parameters");
  const DecoderConfig& d = c.decoder;
  Row(out, "language",
      std::string(LanguageKind(d)) + ", " + N(d.n_layers) + " layers of width " + N(d.n_embed) + ", " + N(d.n_heads) +
          " heads of " + N(d.head_dim) + " (" + N(d.n_kv_heads) + " for keys and values), feed-forward " + N(d.n_ffn) +
          ", " + N(d.n_vocab) + " tokens" + (d.tied_head ? ", tied head" : "") + "; " +
          Count(Parameters(facts, "language")) + " parameters");
  if (const Amount rest = NotUsed(facts); rest.n_tensors > 0) {
    Row(out, "not used",
        N(rest.n_tensors) + " tensors, " + Bytes(rest.n_bytes) + ": parts that this version does not run");
  }
}

void UseRows(const ModelFacts& facts, std::string& out) {
  const ModelConfig& c = facts.engine->config();
  const SamplingOptions s = facts.engine->default_sampling();
  Row(out, "tokenizer",
      facts.tokenizer.source + ": " + N(facts.tokenizer.n_vocab) + " entries, " + N(facts.tokenizer.n_merges) +
          " merges, " + N(facts.tokenizer.n_added) + " added tokens");
  Row(out, "context",
      N(c.decoder.max_positions) + " positions at most, " + N(facts.engine->default_context()) + " by default; " +
          Bytes(facts.kv_bytes_per_position) + " of cache each (f16)");
  Row(out, "pictures", "up to " + N(c.max_slices) + " slices and an overview");
  std::string stops;
  for (const auto& [id, text] : facts.stops) stops += (stops.empty() ? "" : ", ") + N(id) + " " + text;
  Row(out, "stops", stops);
  char sampling[160];
  std::snprintf(sampling, sizeof sampling, "temperature %g, top-k %d, top-p %g, repetition penalty %g",
                static_cast<double>(s.temperature), s.top_k, static_cast<double>(s.top_p),
                static_cast<double>(s.repetition_penalty));
  Row(out, "sampling", sampling);
  Row(out, "template",
      facts.chat_template == TemplateState::kKnown       ? "known"
      : facts.chat_template == TemplateState::kDifferent ? "differs from the known ones, see the warning"
                                                         : "none in the folder, the family's is used");
  Row(out, "licence",
      facts.licence_file.empty() ? "no licence file in the folder"
                                 : facts.summary.licence + " (" + facts.licence_file + ")");
}

std::string FactsTable(const ModelFacts& facts, const InspectFlags& flags, const std::optional<std::string>& sha256) {
  const ModelConfig& c = facts.engine->config();
  std::string out = Printable(facts.engine->folder(), 400) + "\n";
  Row(out, "family",
      std::string(facts.engine->family_name()) + " (" + facts.architecture + " " + Printable(c.version) + ")");
  std::string formats;
  for (const auto& [dtype, amount] : facts.dtypes) {
    formats += (formats.empty() ? "" : ", ") + dtype + " " + Bytes(amount.n_bytes);
  }
  Row(out, "weights",
      Count(AllParameters(facts)) + " parameters in " + std::to_string(facts.tensors.size()) + " tensors: " + formats);
  TowerRows(facts, out);
  UseRows(facts, out);
  for (size_t i = 0; i < facts.files.size(); ++i) {
    Row(out, i == 0 ? "files" : "", Printable(facts.files[i].first, 200) + "  " + Bytes(facts.files[i].second));
  }
  if (sha256.has_value()) Row(out, "SHA-256", *sha256);
  for (const NamedRow& row : BundleRows(facts)) Row(out, row.name.c_str(), row.text);
  if (flags.tensors) {
    for (const ModelFacts::Tensor& t : facts.tensors) {
      std::string shape;
      for (const int64_t dim : t.shape) shape += (shape.empty() ? "" : ", ") + N(dim);
      out += Printable(t.name, 200) + "  " + t.dtype + " [" + shape + "]\n";
    }
  }
  return out;
}

Result<std::string> Inspect(const InspectFlags& flags, Console& console) {
  MINICPM_ASSIGN(const ModelFacts facts, CollectModelFacts(flags.model));
  std::optional<std::string> sha256;
  if (facts.bundle.has_value()) {
    sha256 = facts.bundle->weights.sha256;
  } else if (flags.hash_weights) {
    console.Transient("hashing the weights ...");
    MINICPM_ASSIGN(sha256, facts.engine->WeightsSha256());
    console.Transient("");
  }
  if (flags.json) return FactsJson(facts, flags, sha256).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  for (const std::string& warning : facts.warnings) console.Write(LogLevel::kWarning, warning);
  return FactsTable(facts, flags, sha256);
}

}  // namespace

int InspectCommand(const Arguments& arguments) {
  CLI::App app("Shows what is in a model folder: family, shapes, formats, sizes, licence.", "minicpm inspect");
  InspectFlags flags;
  AddText(app, "MODEL", flags.model, "folder of an official checkpoint, or a bundle", "")->required();
  AddFlag(app, "--json", flags.json, "print one JSON object (docs/json/inspect.schema.json)");
  AddFlag(app, "--tensors", flags.tensors, "list every tensor, too");
  AddFlag(app, "--hash-weights", flags.hash_weights,
          "SHA-256 over the weight files in order (reads every byte; a bundle says it anyway)");
  app.footer(kFooter);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(false);
  const auto text = Inspect(flags, console);
  if (!text.has_value()) {
    console.Error(text.error().message);
    return kExitFailed;
  }
  console.Answer(*text);
  if (console.out_failed()) {
    console.Error("stdout: the result could not be written completely");
    return kExitFailed;
  }
  return kExitDone;
}

}  // namespace minicpm::cli
