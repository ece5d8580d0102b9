// Implementation of model_facts.h.
#include "model_facts.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/log.h"
#include "models/blocks/model_config.h"
#include "os/mapped_file.h"
#include "quant/packed.h"
#include "store/checkpoint.h"
#include "store/json.h"
#include "text/chat_template.h"

namespace minicpm::cli {
namespace {

constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
constexpr size_t kMaxAccuracyBytes = size_t{4} << 20;

class WarningList : public LogSink {
 public:
  explicit WarningList(std::vector<std::string>& warnings) : warnings_(warnings) {}
  void Write(LogLevel level, std::string_view message) override {
    if (level == LogLevel::kWarning) warnings_.emplace_back(message);
  }

 private:
  std::vector<std::string>& warnings_;
};

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

TemplateFamily TemplateFamilyOf(Family family) {
  switch (family) {
    case Family::kMiniCpmV26:
      return TemplateFamily::kMiniCpmV26;
    case Family::kMiniCpmV45:
      return TemplateFamily::kMiniCpmV45;
    case Family::kMiniCpmO45:
      return TemplateFamily::kMiniCpmO45;
  }
  return TemplateFamily::kMiniCpmV45;
}

// Members of a JSON object or elements of a list; 0 when there is none. The tokenizer has read the same file without
// complaint, so this is only counting.
int64_t Count(simdjson::dom::element root, std::string_view pointer) {
  simdjson::dom::element value;
  if (root.at_pointer(pointer).get(value) != simdjson::SUCCESS) return 0;
  simdjson::dom::object object;
  if (value.get(object) == simdjson::SUCCESS) {
    int64_t n = 0;
    for ([[maybe_unused]] const auto field : object) ++n;
    return n;
  }
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return 0;
  int64_t n = 0;
  for ([[maybe_unused]] const auto element : array) ++n;
  return n;
}

// The same for a member of a whole file; "" = the file's own top level.
std::vector<int64_t> CountInFile(const std::string& path, const std::vector<std::string_view>& pointers) {
  std::vector<int64_t> counts(pointers.size(), 0);
  const auto text = ReadWholeFile(path, kMaxTokenizerBytes);
  if (!text.has_value()) return counts;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(*text).get(root) != simdjson::SUCCESS) return counts;
  for (size_t i = 0; i < pointers.size(); ++i) counts[i] = Count(root, pointers[i]);
  return counts;
}

int64_t CountMergeLines(const std::string& path) {
  const auto text = ReadWholeFile(path, kMaxTokenizerBytes);
  if (!text.has_value()) return 0;
  int64_t n = 0;
  std::string_view rest = *text;
  for (bool first = true; !rest.empty(); first = false) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (!line.empty() && line != "\r" && !(first && line.starts_with("#version"))) ++n;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return n;
}

TokenizerFacts CollectTokenizer(const std::string& folder) {
  TokenizerFacts facts;
  if (Exists(folder + "/tokenizer.json")) {
    facts.source = "tokenizer.json";
    const auto n = CountInFile(folder + "/tokenizer.json", {"/model/vocab", "/model/merges", "/added_tokens"});
    facts.n_vocab = n[0];
    facts.n_merges = n[1];
    facts.n_added = n[2];
  } else {
    facts.source = "vocab.json + merges.txt";
    facts.n_vocab = CountInFile(folder + "/vocab.json", {""})[0];
    facts.n_merges = CountMergeLines(folder + "/merges.txt");
  }
  const int64_t n_config = CountInFile(folder + "/tokenizer_config.json", {"/added_tokens_decoder"})[0];
  const int64_t n_file = CountInFile(folder + "/added_tokens.json", {""})[0];
  facts.n_added = std::max(facts.n_added, std::max(n_config, n_file));
  return facts;
}

TemplateState CollectTemplate(const std::string& folder, Family family) {
  bool present = Exists(folder + "/chat_template.jinja");
  if (const auto config = JsonObject::ReadFile(folder + "/tokenizer_config.json"); config.has_value()) {
    present = present || config->Has("chat_template");
  }
  if (!present) return TemplateState::kAbsent;
  return CheckChatTemplate(TemplateFamilyOf(family), folder).has_value() ? TemplateState::kDifferent
                                                                         : TemplateState::kKnown;
}

Status CollectTensors(const std::string& folder, ModelFacts& facts) {
  MINICPM_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(folder));
  if (checkpoint.bundle() != nullptr) {
    facts.bundle = *checkpoint.bundle();
    facts.has_selftest = Exists(folder + "/" + kSelfTestFileName);
    auto accuracy = ReadWholeFile(folder + "/" + kAccuracyFileName, kMaxAccuracyBytes);
    if (accuracy.has_value()) facts.accuracy_json = std::move(*accuracy);
  }
  for (const SafetensorsFile::Entry* entry : checkpoint.entries()) {
    const std::string dtype = NameOf(entry->view.dtype);
    Amount& amount = facts.dtypes[dtype];
    ++amount.n_tensors;
    amount.n_bytes += quant::BytesOf(entry->view);
    ModelFacts::Tensor& tensor = facts.tensors.emplace_back(ModelFacts::Tensor{entry->name, dtype, {}});
    for (int i = 0; i < entry->view.shape.rank(); ++i) tensor.shape.push_back(entry->view.shape[i]);
  }
  return {};
}

}  // namespace

Result<ModelFacts> CollectModelFacts(const std::string& folder) {
  ModelFacts facts;
  WarningList warnings(facts.warnings);
  EngineOptions options;
  options.log = &warnings;
  MINICPM_ASSIGN(facts.engine, Engine::Open(folder, options));
  const ModelConfig& config = facts.engine->config();
  facts.summary = facts.engine->Summary();
  MINICPM_TRY(CollectTensors(folder, facts));
  MINICPM_ASSIGN(const JsonObject json, JsonObject::ReadFile(folder + "/config.json"));
  if (const auto names = json.StringListOr("architectures", {}); names.has_value() && !names->empty()) {
    facts.architecture = Printable(names->front());
  }
  for (const std::string& path : facts.summary.weight_files) {
    facts.files.emplace_back(std::filesystem::path(path).filename().string(), FileBytes(path));
  }
  facts.tokenizer = CollectTokenizer(folder);
  facts.chat_template = CollectTemplate(folder, config.family);
  const Tokenizer& tokenizer = facts.engine->tokenizer();
  for (int32_t id = 0; id < config.decoder.n_vocab; ++id) {
    if (facts.engine->IsStop(id)) facts.stops.emplace_back(id, Printable(tokenizer.Bytes(id)));
  }
  facts.kv_bytes_per_position =
      static_cast<uint64_t>(2 * config.decoder.n_layers * config.decoder.n_kv_heads * config.decoder.head_dim) *
      SizeOf(DType::kF16);
  for (const char* name : {"LICENSE", "LICENSE.txt", "LICENSE.md"}) {
    if (facts.licence_file.empty() && Exists(folder + "/" + name)) facts.licence_file = name;
  }
  return facts;
}

}  // namespace minicpm::cli
