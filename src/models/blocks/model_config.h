// What config.json and preprocessor_config.json say about a model, checked. The families are values here, chosen once.
// Not a place for behaviour: towers read their own struct, the engine reads the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace minicpm {

enum class Family { kMiniCpmV26, kMiniCpmV45, kMiniCpmO45, kMiniCpmV46 };
// "minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5", "minicpm-v-4_6".
const char* FamilyName(Family family);

// SigLIP NaViT encoder (vision_config; attribute names of the official modeling_navit_siglip.py).
struct VisionConfig {
  int64_t n_embed = 1152;  // hidden_size, D
  int64_t n_ffn = 4304;    // intermediate_size, Fv
  int64_t n_layers = 27;   // num_hidden_layers as in the JSON
  int64_t n_heads = 16;    // num_attention_heads
  int64_t n_channels = 3;
  int64_t image_px = 980;       // image_size: side of the position table, in pixels
  int64_t patch_px = 14;        // patch_size
  float eps = 1e-6f;            // layer_norm_eps
  bool drop_last_layer = true;  // drop_vision_last_layer: the last layer is not run (and may be absent from the files)
  // V 4.6 (insert_layer_id): windows of 2 x 2 patches become one row after this layer, unless 4x is asked for. -1:
  // never.
  int64_t merge_after_layer = -1;
  int64_t n_kept_layers() const { return n_layers - (drop_last_layer ? 1 : 0); }
  int64_t n_side() const { return image_px / patch_px; }  // rows of the position grid
  int64_t head_dim() const { return n_embed / n_heads; }
  int64_t n_patch_values() const { return n_channels * patch_px * patch_px; }
};

// Perceiver resampler (resampler.py): heads of 128, queries attend over projected patches.
struct ResamplerConfig {
  int64_t n_queries = 64;  // query_num, Q
  int64_t n_embed = 0;     // E of the language model
  int64_t n_input = 0;     // D of the vision tower
  bool temporal = false;   // frames of a group share one set of keys, with temporal positions (V 4.5)
  float eps = 1e-6f;
  static constexpr int64_t kHeadDim = 128;
  int64_t n_heads() const { return n_embed / kHeadDim; }
};

// Whisper's encoder and the pooling after it (audio_config and the audio_... keys; names of transformers'
// WhisperConfig).
struct AudioConfig {
  int64_t n_embed = 1024;      // d_model, A
  int64_t n_layers = 24;       // encoder_layers
  int64_t n_heads = 16;        // encoder_attention_heads
  int64_t n_ffn = 4096;        // encoder_ffn_dim, Fa
  int64_t n_mels = 80;         // num_mel_bins
  int64_t n_positions = 1500;  // max_source_positions: frames that one piece or one run of the cache may have
  float eps = 1e-5f;           // nn.LayerNorm's default: not in the file
  int64_t pool_step = 5;       // audio_pool_step: frames averaged into one row
  double chunk_seconds = 1.0;  // audio_chunk_length: what a frame may look ahead within; <= 0: everything
  bool stream_input = false;   // stream_input: spans are filled in order from all pieces of a sample
  int64_t head_dim() const { return n_embed / n_heads; }
  // Frames (20 ms each) of one block of the mask; 0: every frame sees every other.
  int64_t block_frames() const { return chunk_seconds > 0 ? static_cast<int64_t>(chunk_seconds * 50) : 0; }
  // After the stride-2 convolution, and after pooling (src/audio/token_count.h has the same formulas for 5).
  static int64_t n_frames(int64_t n_mel_frames) { return (n_mel_frames + 1) / 2; }
  int64_t n_rows(int64_t frames) const { return frames / pool_step; }
};

// V 4.6's last step of vision (model.merger): windows of 2 x 2 rows become one of the language model's width.
struct MergerConfig {
  int64_t n_input = 0;  // D of the vision tower; the network in between is 4 D wide
  int64_t n_embed = 0;  // E of the language model
  float eps = 1e-6f;
};

// Gated-delta layers of a hybrid decoder (linear_* of transformers' Qwen3_5TextConfig).
struct DeltaConfig {
  int64_t n_heads = 0;    // linear_num_key_heads = linear_num_value_heads, H
  int64_t key_dim = 0;    // linear_key_head_dim, dk
  int64_t value_dim = 0;  // linear_value_head_dim, dv
  int64_t n_taps = 4;     // linear_conv_kernel_dim
  int64_t width() const { return n_heads * (2 * key_dim + value_dim); }
};

// Qwen2 / Qwen3 decoder (top level of config.json; attribute names of transformers' Qwen2Config, Qwen3Config).
struct DecoderConfig {
  int64_t n_embed = 0;  // hidden_size, E
  int64_t n_ffn = 0;    // intermediate_size, F
  int64_t n_layers = 0;
  int64_t n_heads = 0;        // Hq
  int64_t n_kv_heads = 0;     // Hkv
  int64_t head_dim = 0;       // Hd
  int64_t n_vocab = 0;        // N
  int64_t max_positions = 0;  // max_position_embeddings
  float eps = 1e-6f;          // rms_norm_eps
  double rope_theta = 1e6;
  bool qkv_bias = false;   // Qwen2
  bool qk_norm = false;    // Qwen3
  bool tied_head = false;  // tie_word_embeddings
  // Qwen3.5 (text_config of V 4.6).
  std::vector<bool> delta_layers;  // layer_types: which layers are gated-delta ones; empty: none
  DeltaConfig delta;
  int64_t rotary_dim = 0;       // leading part of a head that turns with the position; 0: all of it
  bool output_gate = false;     // attn_output_gate
  bool norms_from_one = false;  // norm weights are stored as differences to one
  bool is_hybrid() const { return !delta_layers.empty(); }
  bool is_delta(size_t layer) const { return is_hybrid() && delta_layers[layer]; }
  int64_t rotary() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
};

struct ModelConfig {
  Family family = Family::kMiniCpmV45;
  std::string version;  // as written in config.json, may be empty
  VisionConfig vision;
  ResamplerConfig resampler;           // not of V 4.6
  std::optional<MergerConfig> merger;  // V 4.6, in place of the resampler
  DecoderConfig decoder;
  std::optional<AudioConfig> audio;  // o 4.5, unless config.json has no audio_config or says init_audio false
  // Preprocessing (preprocessor_config.json wins over slice_config of config.json where both speak).
  int64_t downsample = 16;  // V 4.6: patches that become one row, 16 or 4 (downsample_mode)
  int64_t max_slices = 9;
  int64_t scale_resolution = 448;
  bool slice_mode = true;
  bool use_image_id = true;
  float image_mean[3] = {0.5f, 0.5f, 0.5f};
  float image_std[3] = {0.5f, 0.5f, 0.5f};
  std::vector<int32_t> eos_ids;  // generation_config.json, else config.json
};

// Reads config.json and, where present, preprocessor_config.json and generation_config.json. Errors name file and key:
// missing, wrong type, out of range, contradictory (heads that do not divide), or a model_type that is none of ours.
Result<ModelConfig> ReadModelConfig(const std::string& folder);
// The same from texts; empty preprocessor/generation text = absent file.
Result<ModelConfig> ParseModelConfig(const std::string& config_json, const std::string& preprocessor_json,
                                     const std::string& generation_json);

}  // namespace minicpm
