// What is in a model folder, collected from configuration and file headers; no weight is read. Not for showing it
// (inspect.cc).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "store/bundle_manifest.h"

namespace minicpm::cli {

struct Amount {
  int64_t n_tensors = 0;
  uint64_t n_bytes = 0;
};

struct TokenizerFacts {
  std::string source;  // "tokenizer.json" or "vocab.json + merges.txt"
  int64_t n_vocab = 0;
  int64_t n_merges = 0;
  int64_t n_added = 0;
};

enum class TemplateState { kAbsent, kKnown, kDifferent };

struct ModelFacts {
  std::shared_ptr<const Engine> engine;
  ModelSummary summary;
  std::string architecture;  // config.json's first "architectures", "" when there is none
  std::map<std::string, Amount> dtypes;
  std::vector<std::pair<std::string, uint64_t>> files;  // weight files: name, bytes
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
  };
  std::vector<Tensor> tensors;  // sorted by name
  TokenizerFacts tokenizer;
  TemplateState chat_template = TemplateState::kAbsent;
  std::vector<std::pair<int32_t, std::string>> stops;
  uint64_t kv_bytes_per_position = 0;  // with an f16 cache
  std::string licence_file;            // "" when there is none
  std::vector<std::string> warnings;
  std::optional<BundleManifest> bundle;  // when the folder is one
  bool has_selftest = false;
  std::string accuracy_json;  // text of accuracy.json; "" = not measured
};

// Opens the model as `run` would; errors are the same.
Result<ModelFacts> CollectModelFacts(const std::string& folder);

}  // namespace minicpm::cli
