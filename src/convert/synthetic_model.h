// Which synthetic model is wanted: its configuration files at real shapes. Not for its weights (synthetic.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/blocks/model_config.h"

namespace minicpm {

struct SyntheticModel {
  std::string name;
  ModelConfig config;
  std::vector<std::pair<std::string, std::string>> files;  // name, content: configuration and tokenizer
};

// `text`: minicpm-v-2_6, minicpm-v-4_5, minicpm-o-4_5, qwen3-0.6b (that language model in the V 4.5 family) or the path
// of a config.json; behind it any of ":layers=N" (language), ":vision_layers=N" and ":audio_layers=N". Errors:
// kInvalidArgument naming
// --synthetic, those of reading and checking a configuration.
Result<SyntheticModel> MakeSyntheticModel(const std::string& text, uint64_t seed);

}  // namespace minicpm
