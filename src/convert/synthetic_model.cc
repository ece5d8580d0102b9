// Implementation of synthetic_model.h. Sizes are those of the official config.json files.
#include "convert/synthetic_model.h"

#include <nlohmann/json.hpp>

#include "convert/synthetic_tokenizer.h"
#include "os/mapped_file.h"
#include "store/json.h"

namespace minicpm {
namespace {

using Json = nlohmann::ordered_json;

struct Sizes {
  const char* name;
  Family family;
  const char* version;
  int hidden, layers, heads, kv_heads, ffn, vocab, positions;
  bool tied;
};
constexpr Sizes kModels[] = {
    {"minicpm-v-2_6", Family::kMiniCpmV26, "2.6", 3584, 28, 28, 4, 18944, 151666, 32768, false},
    {"minicpm-v-4_5", Family::kMiniCpmV45, "4.5", 4096, 36, 32, 8, 12288, 151748, 40960, false},
    {"minicpm-o-4_5", Family::kMiniCpmO45, "4.5", 4096, 36, 32, 8, 12288, 151748, 40960, false},
    {"qwen3-0.6b", Family::kMiniCpmV45, "4.5", 1024, 28, 16, 8, 3072, 151748, 40960, true},
};

std::unexpected<Error> Usage(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "--synthetic: " + what);
}

Json ConfigJson(const Sizes& s) {
  const bool omni = s.family == Family::kMiniCpmO45;
  Json json = {{"version", s.version},
               {"architectures", {omni ? "MiniCPMO" : "MiniCPMV"}},
               {"attention_dropout", 0.0},
               {"bos_token_id", SyntheticTokenId(s.family, s.vocab, "<|endoftext|>")},
               {"eos_token_id", SyntheticTokenId(s.family, s.vocab, "<|im_end|>")},
               {"head_dim", 128},
               {"hidden_act", "silu"},
               {"hidden_size", s.hidden},
               {"initializer_range", 0.02},
               {"intermediate_size", s.ffn},
               {"max_position_embeddings", s.positions},
               {"num_attention_heads", s.heads},
               {"num_hidden_layers", s.layers},
               {"num_key_value_heads", s.kv_heads},
               {"rms_norm_eps", 1e-6},
               {"rope_theta", 1000000},
               {"tie_word_embeddings", s.tied},
               {"torch_dtype", "bfloat16"},
               {"use_cache", true},
               {"use_sliding_window", false},
               {"vocab_size", s.vocab},
               {"batch_vision_input", true},
               {"drop_vision_last_layer", false},
               {"image_size", 448},
               {"model_type", omni ? "minicpmo" : "minicpmv"},
               {"patch_size", 14},
               {"query_num", 64},
               {"slice_config", {{"max_slice_nums", 9}, {"patch_size", 14}, {"model_type", "minicpmv"}}},
               {"slice_mode", true},
               {"vision_config",
                {{"hidden_size", 1152},
                 {"image_size", 980},
                 {"intermediate_size", 4304},
                 {"model_type", "siglip"},
                 {"num_attention_heads", 16},
                 {"num_hidden_layers", 27},
                 {"patch_size", 14}}},
               {"use_image_id", true},
               {"vision_batch_size", 16}};
  if (s.family == Family::kMiniCpmV45) json["batch_3d_resampler"] = true;
  if (s.family != Family::kMiniCpmV26) json["attention_bias"] = false;
  if (omni) {
    json["audio_pool_step"] = 5;
    json["audio_chunk_length"] = 1.0;
    json["stream_input"] = true;
    json["init_audio"] = true;
    json["audio_config"] = {{"model_type", "whisper"}, {"activation_function", "gelu"}, {"d_model", 1024},
                            {"encoder_layers", 24},    {"encoder_attention_heads", 16}, {"encoder_ffn_dim", 4096},
                            {"num_mel_bins", 80},      {"max_source_positions", 1500}};
  }
  return json;
}

std::string PreprocessorText(const ModelConfig& c) {
  return Json{{"image_processor_type", "MiniCPMVImageProcessor"},
              {"max_slice_nums", c.max_slices},
              {"scale_resolution", c.scale_resolution},
              {"patch_size", c.vision.patch_px},
              {"use_image_id", c.use_image_id},
              {"image_feature_size", c.resampler.n_queries},
              {"slice_mode", c.slice_mode},
              {"norm_mean", {0.5, 0.5, 0.5}},
              {"norm_std", {0.5, 0.5, 0.5}}}
             .dump(2) +
         "\n";
}

std::string GenerationText(const ModelConfig& c) {
  const auto id = [&](const char* text) { return SyntheticTokenId(c.family, c.decoder.n_vocab, text); };
  return Json{{"bos_token_id", id("<|endoftext|>")},
              {"eos_token_id", {id("<|im_end|>"), id("<|endoftext|>")}},
              {"pad_token_id", id("<|endoftext|>")}}
             .dump(2) +
         "\n";
}

Result<Json> BaseConfig(const std::string& name) {
  std::string known;
  for (const Sizes& sizes : kModels) {
    if (name == sizes.name) return ConfigJson(sizes);
    known += std::string(sizes.name) + ", ";
  }
  if (!name.ends_with(".json")) {
    return Usage("expected " + known + "or the path of a config.json, found \"" + Printable(name) + "\"");
  }
  MINICPM_ASSIGN(const std::string text, ReadWholeFile(name, JsonObject::kMaxBytes));
  MINICPM_TRY(JsonObject::Parse(text, name));  // explains what is wrong
  return Json::parse(text, nullptr, false);
}

// One ":key=N".
Status Change(Json& config, const std::string& change) {
  const size_t equals = change.find('=');
  const std::string key = change.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : change.substr(equals + 1);
  const bool is_number = !value.empty() && value.size() <= 4 && value.find_first_not_of("0123456789") == value.npos;
  struct Place {
    const char* key;
    const char* part;  // "" = the top
    const char* name;
  };
  static constexpr Place kPlaces[] = {{"layers", "", "num_hidden_layers"},
                                      {"vision_layers", "vision_config", "num_hidden_layers"},
                                      {"audio_layers", "audio_config", "encoder_layers"}};
  for (const Place& place : kPlaces) {
    if (key != place.key || !is_number || std::stoi(value) < 1) continue;
    if (*place.part == 0) {
      config[place.name] = std::stoi(value);
    } else if (config.contains(place.part) && config[place.part].is_object()) {
      config[place.part][place.name] = std::stoi(value);
    }
    return {};
  }
  return Usage("expected :layers=N, :vision_layers=N or :audio_layers=N, found \":" + Printable(change) + "\"");
}

}  // namespace

Result<SyntheticModel> MakeSyntheticModel(const std::string& text, uint64_t seed) {
  SyntheticModel model;
  model.name = text;
  size_t colon = text.find(':');
  MINICPM_ASSIGN(Json config, BaseConfig(text.substr(0, colon)));
  while (colon != std::string::npos) {
    const size_t next = text.find(':', colon + 1);
    MINICPM_TRY(Change(config, text.substr(colon + 1, next == std::string::npos ? next : next - colon - 1)));
    colon = next;
  }
  const std::string config_text = config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  MINICPM_ASSIGN(model.config, ParseModelConfig(config_text, "", ""));
  MINICPM_ASSIGN(model.files, SyntheticTokenizerFiles(model.config.family, model.config.decoder.n_vocab, seed));
  model.files.emplace_back("config.json", config_text);
  model.files.emplace_back("preprocessor_config.json", PreprocessorText(model.config));
  model.files.emplace_back("generation_config.json", GenerationText(model.config));
  return model;
}

}  // namespace minicpm
