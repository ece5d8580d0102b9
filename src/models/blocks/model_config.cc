// Implementation of model_config.h. Every number is bounded here, so towers may multiply sizes without overflow.
#include "models/blocks/model_config.h"

#include <cmath>
#include <filesystem>
#include <optional>

#include "os/mapped_file.h"
#include "store/json.h"

namespace minicpm {
namespace {

constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxVocab = 1 << 22;

// "version" is a number in some releases and a string in others.
Result<std::string> ReadVersion(const JsonObject& json) {
  if (!json.Has("version")) return std::string();
  if (const auto number = json.Number("version"); number.has_value()) {
    std::string s = std::to_string(std::round(*number * 100.0) / 100.0);
    while (s.ends_with('0')) s.pop_back();
    if (s.ends_with('.')) s.pop_back();
    return s;
  }
  return json.String("version");
}

Result<Family> FindFamily(const JsonObject& json, const std::string& version) {
  MINICPM_ASSIGN(const std::string model_type, json.String("model_type"));
  if (model_type == "minicpmv" && version == "2.6") return Family::kMiniCpmV26;
  if (model_type == "minicpmv" && version == "4.5") return Family::kMiniCpmV45;
  if (model_type == "minicpmo" && version == "4.5") return Family::kMiniCpmO45;
  if (model_type == "minicpmv4_6") return Family::kMiniCpmV46;
  return Fail(ErrorCode::kUnsupported, json.name() + ": model_type \"" + Printable(model_type) + "\" version \"" +
                                           Printable(version) +
                                           "\" is not supported, expected minicpmv 2.6, minicpmv 4.5, minicpmo 4.5 or "
                                           "minicpmv4_6");
}

Result<VisionConfig> ReadVision(const JsonObject& json) {
  VisionConfig c;
  MINICPM_ASSIGN(c.drop_last_layer, json.BoolOr("drop_vision_last_layer", true));
  MINICPM_ASSIGN(const std::optional<JsonObject> maybe, json.ObjectOrNull("vision_config"));
  if (!maybe.has_value()) return json.Complain("vision_config", "an object");
  const JsonObject& v = *maybe;
  MINICPM_ASSIGN(c.n_embed, v.IntOr("hidden_size", c.n_embed, 1, kMaxWidth));
  MINICPM_ASSIGN(c.n_ffn, v.IntOr("intermediate_size", c.n_ffn, 1, 8 * kMaxWidth));
  MINICPM_ASSIGN(c.n_layers, v.IntOr("num_hidden_layers", c.n_layers, 1, kMaxLayers));
  MINICPM_ASSIGN(c.n_heads, v.IntOr("num_attention_heads", c.n_heads, 1, kMaxWidth));
  MINICPM_ASSIGN(c.n_channels, v.IntOr("num_channels", c.n_channels, 3, 3));
  MINICPM_ASSIGN(c.image_px, v.IntOr("image_size", c.image_px, 1, 1 << 14));
  MINICPM_ASSIGN(c.patch_px, v.IntOr("patch_size", c.patch_px, 1, 256));
  MINICPM_ASSIGN(const double eps, v.NumberOr("layer_norm_eps", 1e-6, 0.0, 1.0));
  c.eps = static_cast<float>(eps);
  MINICPM_ASSIGN(const std::string act, v.StringOr("hidden_act", "gelu_pytorch_tanh"));
  if (act != "gelu_pytorch_tanh") return v.Complain("hidden_act", "\"gelu_pytorch_tanh\"");
  if (c.n_embed % c.n_heads != 0) return v.Complain("num_attention_heads", "a divisor of hidden_size");
  if (c.n_side() < 2) return v.Complain("image_size", "at least twice patch_size");
  return c;
}

Status ReadRope(const JsonObject& json, DecoderConfig& c) {
  MINICPM_ASSIGN(c.rope_theta, json.NumberOr("rope_theta", c.rope_theta, 1.0, 1e12));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    MINICPM_ASSIGN(const std::optional<JsonObject> rope, json.ObjectOrNull(key));
    if (!rope.has_value()) continue;
    const char* type_key = rope->Has("type") ? "type" : "rope_type";
    MINICPM_ASSIGN(const std::string type, rope->StringOr(type_key, "default"));
    if (type != "default") return rope->Complain(type_key, "\"default\" (scaled rotary embeddings are not supported)");
    MINICPM_ASSIGN(c.rope_theta, rope->NumberOr("rope_theta", c.rope_theta, 1.0, 1e12));
  }
  return {};
}

Result<DecoderConfig> ReadDecoder(const JsonObject& json, Family family) {
  DecoderConfig c;
  MINICPM_ASSIGN(c.n_embed, json.Int("hidden_size", 1, kMaxWidth));
  MINICPM_ASSIGN(c.n_ffn, json.Int("intermediate_size", 1, 8 * kMaxWidth));
  MINICPM_ASSIGN(c.n_layers, json.Int("num_hidden_layers", 1, kMaxLayers));
  MINICPM_ASSIGN(c.n_heads, json.Int("num_attention_heads", 1, kMaxWidth));
  MINICPM_ASSIGN(c.n_kv_heads, json.IntOr("num_key_value_heads", c.n_heads, 1, c.n_heads));
  if (c.n_heads % c.n_kv_heads != 0) return json.Complain("num_key_value_heads", "a divisor of num_attention_heads");
  if (json.Has("head_dim")) {
    MINICPM_ASSIGN(c.head_dim, json.Int("head_dim", 2, 4096));
  } else {
    if (c.n_embed % c.n_heads != 0) return json.Complain("num_attention_heads", "a divisor of hidden_size");
    c.head_dim = c.n_embed / c.n_heads;
  }
  if (c.head_dim % 2 != 0) return json.Complain("head_dim", "an even number");
  MINICPM_ASSIGN(c.n_vocab, json.Int("vocab_size", 1, kMaxVocab));
  MINICPM_ASSIGN(c.max_positions, json.IntOr("max_position_embeddings", 32768, 1, 1 << 24));
  MINICPM_ASSIGN(const double eps, json.NumberOr("rms_norm_eps", 1e-6, 0.0, 1.0));
  c.eps = static_cast<float>(eps);
  MINICPM_TRY(ReadRope(json, c));
  MINICPM_ASSIGN(c.tied_head, json.BoolOr("tie_word_embeddings", false));
  MINICPM_ASSIGN(const bool sliding, json.BoolOr("use_sliding_window", false));
  if (sliding) return json.Complain("use_sliding_window", "false (sliding windows are not supported)");
  MINICPM_ASSIGN(const std::string act, json.StringOr("hidden_act", "silu"));
  if (act != "silu") return json.Complain("hidden_act", "\"silu\"");
  // Qwen2 has biases by architecture, Qwen3 by an option that all releases leave off.
  c.qkv_bias = family == Family::kMiniCpmV26;
  c.qk_norm = family != Family::kMiniCpmV26;
  MINICPM_ASSIGN(const bool attention_bias, json.BoolOr("attention_bias", c.qkv_bias));
  if (attention_bias != c.qkv_bias) {
    return json.Complain("attention_bias", c.qkv_bias ? "true for this family" : "false for this family");
  }
  return c;
}

// Which layers are gated-delta ones: a list of names, or every full_attention_interval-th one is not.
Status ReadLayerTypes(const JsonObject& json, DecoderConfig& c) {
  MINICPM_ASSIGN(const std::vector<std::string> types, json.StringListOr("layer_types", {}));
  MINICPM_ASSIGN(const int64_t interval, json.IntOr("full_attention_interval", 4, 1, kMaxLayers));
  if (!types.empty() && static_cast<int64_t>(types.size()) != c.n_layers) {
    return json.Complain("layer_types", "a list of num_hidden_layers names");
  }
  for (int64_t i = 0; i < c.n_layers; ++i) {
    const std::string type = !types.empty()            ? types[static_cast<size_t>(i)]
                             : (i + 1) % interval != 0 ? "linear_attention"
                                                       : "full_attention";
    if (type != "linear_attention" && type != "full_attention") {
      return json.Complain("layer_types", "\"linear_attention\" and \"full_attention\" only");
    }
    c.delta_layers.push_back(type == "linear_attention");
  }
  return {};
}

// What Qwen3.5's text_config says beyond Qwen3's.
Status ReadHybrid(const JsonObject& json, DecoderConfig& c) {
  MINICPM_TRY(ReadLayerTypes(json, c));
  DeltaConfig& d = c.delta;
  MINICPM_ASSIGN(d.n_heads, json.Int("linear_num_value_heads", 1, 1024));
  MINICPM_ASSIGN(const int64_t key_heads, json.Int("linear_num_key_heads", 1, 1024));
  if (key_heads != d.n_heads) return json.Complain("linear_num_key_heads", "equal to linear_num_value_heads");
  MINICPM_ASSIGN(d.key_dim, json.Int("linear_key_head_dim", 1, 4096));
  MINICPM_ASSIGN(d.value_dim, json.Int("linear_value_head_dim", 1, 4096));
  MINICPM_ASSIGN(d.n_taps, json.IntOr("linear_conv_kernel_dim", 4, 1, 16));
  c.norms_from_one = true;
  MINICPM_ASSIGN(c.output_gate, json.BoolOr("attn_output_gate", true));
  if (!c.output_gate) return json.Complain("attn_output_gate", "true");
  MINICPM_ASSIGN(double part, json.NumberOr("partial_rotary_factor", 0.25, 0.0, 1.0));
  MINICPM_ASSIGN(const std::optional<JsonObject> rope, json.ObjectOrNull("rope_parameters"));
  if (rope.has_value()) {
    MINICPM_ASSIGN(part, rope->NumberOr("partial_rotary_factor", part, 0.0, 1.0));
  }
  c.rotary_dim = static_cast<int64_t>(static_cast<double>(c.head_dim) * part);
  if (c.rotary_dim < 2 || c.rotary_dim % 2 != 0) {
    return json.Complain("partial_rotary_factor", "an even number of head_dim's values");
  }
  return {};
}

Status CheckPair(const JsonObject& json, const char* key) {
  MINICPM_ASSIGN(const std::vector<int64_t> pair, json.IntListOr(key, {2, 2}, 1, 1024));
  if (pair != std::vector<int64_t>{2, 2}) return json.Complain(key, "[2, 2]");
  return {};
}

// V 4.6: a decoder under text_config, and mergers in place of the resampler.
Status ReadV46(const JsonObject& json, ModelConfig& m) {
  MINICPM_ASSIGN(const std::optional<JsonObject> text, json.ObjectOrNull("text_config"));
  if (!text.has_value()) return json.Complain("text_config", "an object");
  MINICPM_ASSIGN(m.decoder, ReadDecoder(*text, m.family));
  MINICPM_TRY(ReadHybrid(*text, m.decoder));
  MINICPM_ASSIGN(m.decoder.tied_head, json.BoolOr("tie_word_embeddings", m.decoder.tied_head));
  MINICPM_ASSIGN(m.vision.merge_after_layer, json.IntOr("insert_layer_id", 6, 0, m.vision.n_kept_layers() - 1));
  MINICPM_ASSIGN(const JsonObject vision, json.Object("vision_config"));
  MINICPM_TRY(CheckPair(vision, "window_kernel_size"));
  MINICPM_TRY(CheckPair(json, "merge_kernel_size"));
  MINICPM_ASSIGN(const int64_t times, json.IntOr("merger_times", 1, 1, 16));
  if (times != 1) return json.Complain("merger_times", "1");
  m.merger = MergerConfig{.n_input = m.vision.n_embed, .n_embed = m.decoder.n_embed};
  MINICPM_ASSIGN(const std::string mode, json.StringOr("downsample_mode", "16x"));
  if (mode != "16x" && mode != "4x") return json.Complain("downsample_mode", "\"16x\" or \"4x\"");
  m.downsample = mode == "4x" ? 4 : 16;
  return {};
}

Result<ResamplerConfig> ReadResampler(const JsonObject& json, const ModelConfig& m) {
  ResamplerConfig c;
  MINICPM_ASSIGN(c.n_queries, json.IntOr("query_num", c.n_queries, 1, 4096));
  c.n_embed = m.decoder.n_embed;
  c.n_input = m.vision.n_embed;
  if (c.n_embed % ResamplerConfig::kHeadDim != 0) {
    return json.Complain("hidden_size", "a multiple of 128 (the resampler's heads)");
  }
  if (m.family == Family::kMiniCpmV45) {
    MINICPM_ASSIGN(c.temporal, json.BoolOr("batch_3d_resampler", true));
    if (!c.temporal) return json.Complain("batch_3d_resampler", "true");
  }
  return c;
}

// Absent in the models that do not hear, and where the file says that this part was left out.
Result<std::optional<AudioConfig>> ReadAudio(const JsonObject& json, Family family) {
  std::optional<AudioConfig> none;
  if (family != Family::kMiniCpmO45) return none;
  MINICPM_ASSIGN(const bool wanted, json.BoolOr("init_audio", true));
  MINICPM_ASSIGN(const std::optional<JsonObject> maybe, json.ObjectOrNull("audio_config"));
  if (!wanted || !maybe.has_value()) return none;
  const JsonObject& a = *maybe;
  AudioConfig c;
  MINICPM_ASSIGN(c.n_embed, a.IntOr("d_model", c.n_embed, 1, kMaxWidth));
  MINICPM_ASSIGN(c.n_layers, a.IntOr("encoder_layers", c.n_layers, 1, kMaxLayers));
  MINICPM_ASSIGN(c.n_heads, a.IntOr("encoder_attention_heads", c.n_heads, 1, kMaxWidth));
  MINICPM_ASSIGN(c.n_ffn, a.IntOr("encoder_ffn_dim", c.n_ffn, 1, 8 * kMaxWidth));
  MINICPM_ASSIGN(c.n_mels, a.IntOr("num_mel_bins", c.n_mels, 1, 512));
  MINICPM_ASSIGN(c.n_positions, a.IntOr("max_source_positions", c.n_positions, 1, kMaxWidth));
  if (c.n_embed % c.n_heads != 0) return a.Complain("encoder_attention_heads", "a divisor of d_model");
  MINICPM_ASSIGN(const std::string act, a.StringOr("activation_function", "gelu"));
  if (act != "gelu") return a.Complain("activation_function", "\"gelu\"");
  MINICPM_ASSIGN(c.pool_step, json.IntOr("audio_pool_step", c.pool_step, 1, 1024));
  MINICPM_ASSIGN(c.chunk_seconds, json.NumberOr("audio_chunk_length", c.chunk_seconds, -1e3, 1e3));
  if (c.chunk_seconds > 0 && c.block_frames() < 1) {
    return json.Complain("audio_chunk_length", "0 or less (no limit), or at least 0.02 (one frame)");
  }
  MINICPM_ASSIGN(c.stream_input, json.BoolOr("stream_input", false));
  return std::optional<AudioConfig>(c);
}

Status ReadTriple(const JsonObject& json, const char* key, double min, float out[3]) {
  MINICPM_ASSIGN(const std::vector<double> values, json.NumberListOr(key, {out[0], out[1], out[2]}, min, 1e3));
  if (values.size() != 3) return json.Complain(key, "three numbers");
  for (int i = 0; i < 3; ++i) out[i] = static_cast<float>(values[i]);
  return {};
}

// Both files may hold the slicing values; the preprocessor's win because the official pipeline cuts with those.
Status ReadSlicing(const JsonObject& json, ModelConfig& m) {
  MINICPM_ASSIGN(m.max_slices, json.IntOr("max_slice_nums", m.max_slices, 1, 256));
  MINICPM_ASSIGN(m.scale_resolution, json.IntOr("scale_resolution", m.scale_resolution, m.vision.patch_px, 1 << 14));
  MINICPM_ASSIGN(const int64_t patch, json.IntOr("patch_size", m.vision.patch_px, 1, 256));
  if (patch != m.vision.patch_px) {
    return json.Complain("patch_size", std::to_string(m.vision.patch_px) + " as in vision_config");
  }
  return {};
}

Status ReadPreprocessor(const JsonObject& json, ModelConfig& m) {
  MINICPM_TRY(ReadSlicing(json, m));
  MINICPM_ASSIGN(m.slice_mode, json.BoolOr("slice_mode", m.slice_mode));
  MINICPM_ASSIGN(m.use_image_id, json.BoolOr("use_image_id", m.use_image_id));
  if (m.family == Family::kMiniCpmV46) {
    MINICPM_TRY(ReadTriple(json, "image_mean", -1e3, m.image_mean));
    return ReadTriple(json, "image_std", 1e-6, m.image_std);
  }
  MINICPM_ASSIGN(const int64_t queries, json.IntOr("image_feature_size", m.resampler.n_queries, 1, 4096));
  if (queries != m.resampler.n_queries) {
    return json.Complain("image_feature_size", std::to_string(m.resampler.n_queries) + " as query_num in config.json");
  }
  MINICPM_TRY(ReadTriple(json, "norm_mean", -1e3, m.image_mean));
  return ReadTriple(json, "norm_std", 1e-6, m.image_std);
}

Status ReadEos(const JsonObject& json, ModelConfig& m) {
  MINICPM_ASSIGN(const std::vector<int64_t> ids, json.IntListOr("eos_token_id", {}, 0, kMaxVocab));
  if (!ids.empty()) m.eos_ids.assign(ids.begin(), ids.end());
  return {};
}

}  // namespace

const char* FamilyName(Family family) {
  switch (family) {
    case Family::kMiniCpmV26:
      return "minicpm-v-2_6";
    case Family::kMiniCpmV45:
      return "minicpm-v-4_5";
    case Family::kMiniCpmO45:
      return "minicpm-o-4_5";
    case Family::kMiniCpmV46:
      return "minicpm-v-4_6";
  }
  return "unknown";
}

Result<ModelConfig> ParseModelConfig(const std::string& config_json, const std::string& preprocessor_json,
                                     const std::string& generation_json) {
  MINICPM_ASSIGN(const JsonObject config, JsonObject::Parse(config_json, "config.json"));
  std::optional<JsonObject> preprocessor;
  if (!preprocessor_json.empty()) {
    MINICPM_ASSIGN(preprocessor, JsonObject::Parse(preprocessor_json, "preprocessor_config.json"));
  }
  ModelConfig m;
  MINICPM_ASSIGN(m.version, ReadVersion(config));
  if (m.version.empty() && preprocessor.has_value()) {
    MINICPM_ASSIGN(m.version, ReadVersion(*preprocessor));
  }
  MINICPM_ASSIGN(m.family, FindFamily(config, m.version));
  MINICPM_ASSIGN(m.vision, ReadVision(config));
  if (m.family == Family::kMiniCpmV46) {
    MINICPM_TRY(ReadV46(config, m));
  } else {
    MINICPM_ASSIGN(m.decoder, ReadDecoder(config, m.family));
    MINICPM_ASSIGN(m.resampler, ReadResampler(config, m));
  }
  MINICPM_ASSIGN(m.audio, ReadAudio(config, m.family));
  MINICPM_ASSIGN(const std::optional<JsonObject> slices, config.ObjectOrNull("slice_config"));
  if (slices.has_value()) MINICPM_TRY(ReadSlicing(*slices, m));
  MINICPM_ASSIGN(m.slice_mode, config.BoolOr("slice_mode", m.slice_mode));
  MINICPM_ASSIGN(m.use_image_id, config.BoolOr("use_image_id", m.use_image_id));
  if (preprocessor.has_value()) MINICPM_TRY(ReadPreprocessor(*preprocessor, m));
  MINICPM_TRY(ReadEos(config, m));
  if (!generation_json.empty()) {
    MINICPM_ASSIGN(const JsonObject generation, JsonObject::Parse(generation_json, "generation_config.json"));
    MINICPM_TRY(ReadEos(generation, m));
  }
  return m;
}

Result<ModelConfig> ReadModelConfig(const std::string& folder) {
  std::string texts[3];
  const char* names[3] = {"config.json", "preprocessor_config.json", "generation_config.json"};
  for (int i = 0; i < 3; ++i) {
    auto text = ReadWholeFile(folder + "/" + names[i], JsonObject::kMaxBytes);
    if (text.has_value()) {
      texts[i] = std::move(*text);
    } else if (i == 0 || text.error().code != ErrorCode::kNotFound) {
      return std::unexpected(std::move(text).error());
    }
  }
  auto config = ParseModelConfig(texts[0], texts[1], texts[2]);
  if (!config.has_value()) return Annotate(folder, std::move(config).error());
  return config;
}

}  // namespace minicpm
