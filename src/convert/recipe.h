// Recipe: which tensor of a checkpoint is stored in which format, decided by what it is used for and by the options.
// Not for encoding (encode.h) or for where tensors lie in the file (weights_layout.h).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/blocks/model_config.h"
#include "store/bundle_manifest.h"
#include "tensor/tensor.h"

namespace minicpm {

// As given on the command line; formats are "f32", "f16", "bf16", "int8", "int4" or "source" (as it was).
struct RecipeOptions {
  std::string weights = "int4";
  std::optional<std::string> vision;
  std::optional<std::string> resampler;
  std::optional<std::string> audio;  // not int4; without effect on models that do not hear
  std::optional<std::string> head;
  std::optional<std::string> embeddings;
  std::vector<std::string> keep;  // "GLOB=FORMAT" with * and ?; the last that matches a tensor counts
  bool keep_unused = false;       // also tensors that nothing here reads
};

struct SourceTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

struct PlannedTensor {
  std::string name;
  Shape shape;
  DType source_dtype;
  DType dtype;
  std::string group;
};

struct Plan {
  std::vector<PlannedTensor> tensors;  // in the order of the model's listing, then the rest by name
  std::vector<DroppedTensor> dropped;
  std::vector<BundleGroup> groups;            // name and format only
  std::map<std::string, std::string> recipe;  // every option with its value
};

// Errors: kInvalidArgument for options that contradict each other or fit nothing, kNotFound and kCorrupt for tensors
// that are missing or have another shape or dtype than `config` asks for.
Result<Plan> MakePlan(const ModelConfig& config, std::span<const SourceTensor> source, const RecipeOptions& options);

// Whether `text` matches `glob`, where * is any run of characters and ? is one.
bool MatchesGlob(std::string_view glob, std::string_view text);

}  // namespace minicpm
