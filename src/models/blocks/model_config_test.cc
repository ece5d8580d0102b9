// Tests of configuration reading: the official shapes, every kind of wrong value, and which file wins.
#include "models/blocks/model_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

// The public values of MiniCPM-V 4.5's config.json.
std::string V45(const std::string& extra = "") {
  return R"({"architectures": ["MiniCPMV"], "model_type": "minicpmv", "version": 4.5, "hidden_size": 4096,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 12288, "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 1000000,
    "rope_scaling": null, "max_position_embeddings": 40960, "vocab_size": 151748, "tie_word_embeddings": false,
    "attention_bias": false, "query_num": 64, "batch_3d_resampler": true, "drop_vision_last_layer": false,
    "eos_token_id": 151645, "slice_config": {"max_slice_nums": 9, "patch_size": 14, "model_type": "minicpmv"},
    "vision_config": {"hidden_size": 1152, "image_size": 980, "intermediate_size": 4304, "model_type": "siglip",
    "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14})" +
         (extra.empty() ? "" : ", " + extra) + "}";
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& config, const std::string& preprocessor = "", const std::string& gen = "") {
  const auto result = ParseModelConfig(config, preprocessor, gen);
  return result.has_value() ? "no error" : result.error().message;
}

TEST(ModelConfig, ReadsV45) {
  const auto m = ParseModelConfig(V45(), "", R"({"eos_token_id": [151645, 151643]})");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->family, Family::kMiniCpmV45);
  EXPECT_EQ(m->vision.n_kept_layers(), 27);
  EXPECT_EQ(m->vision.head_dim(), 72);
  EXPECT_EQ(m->vision.n_side(), 70);
  EXPECT_EQ(m->resampler.n_heads(), 32);
  EXPECT_TRUE(m->resampler.temporal);
  EXPECT_TRUE(m->decoder.qk_norm);
  EXPECT_FALSE(m->decoder.qkv_bias);
  EXPECT_EQ(m->eos_ids, (std::vector<int32_t>{151645, 151643}));
}

TEST(ModelConfig, DropsTheLastVisionLayerUnlessTold) {
  const auto m = ParseModelConfig(Replace(V45(), R"("drop_vision_last_layer": false,)", ""), "", "");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->vision.n_kept_layers(), 26);
}

TEST(ModelConfig, V26IsQwen2WithBiases) {
  std::string json = Replace(V45(), "4.5", "2.6");
  json = Replace(json, R"("attention_bias": false, )", "");
  json = Replace(json, R"("head_dim": 128,)", "");
  const auto m = ParseModelConfig(json, "", "");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->family, Family::kMiniCpmV26);
  EXPECT_TRUE(m->decoder.qkv_bias);
  EXPECT_FALSE(m->decoder.qk_norm);
  EXPECT_EQ(m->decoder.head_dim, 128);
  EXPECT_FALSE(m->resampler.temporal);
}

TEST(ModelConfig, VersionMayBeTextOrStandInThePreprocessor) {
  EXPECT_TRUE(ParseModelConfig(Replace(V45(), "4.5", "\"4.5\""), "", "").has_value());
  EXPECT_TRUE(ParseModelConfig(Replace(V45(), "\"version\": 4.5,", ""), R"({"version": 4.5})", "").has_value());
}

TEST(ModelConfig, PreprocessorWinsForSlicing) {
  const auto m = ParseModelConfig(V45(), R"({"max_slice_nums": 4, "scale_resolution": 224, "patch_size": 14,
    "norm_mean": [0.1, 0.2, 0.3]})",
                                  "");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->max_slices, 4);
  EXPECT_EQ(m->scale_resolution, 224);
  EXPECT_FLOAT_EQ(m->image_mean[1], 0.2f);
}

// MiniCPM-o 4.5: the language and vision values of V 4.5 and an ear.
std::string O45(const std::string& audio, const std::string& extra = "") {
  return Replace(Replace(V45(R"("audio_config": {)" + audio + "}" + extra), "minicpmv", "minicpmo"),
                 R"("batch_3d_resampler": true, )", "");
}

TEST(ModelConfig, ReadsTheAudioTower) {
  const auto m =
      ParseModelConfig(O45(R"("d_model": 72, "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 200,
             "num_mel_bins": 128, "max_source_positions": 750)",
                           R"(, "audio_pool_step": 2, "audio_chunk_length": 0.3, "stream_input": true)"),
                       "", "");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  ASSERT_TRUE(m->audio.has_value());
  const AudioConfig& a = *m->audio;
  EXPECT_EQ(a.n_embed, 72);
  EXPECT_EQ(a.n_layers, 2);
  EXPECT_EQ(a.head_dim(), 24);
  EXPECT_EQ(a.n_ffn, 200);
  EXPECT_EQ(a.n_mels, 128);
  EXPECT_EQ(a.n_positions, 750);
  EXPECT_EQ(a.pool_step, 2);
  EXPECT_EQ(a.block_frames(), 15);
  EXPECT_TRUE(a.stream_input);
  EXPECT_FLOAT_EQ(a.eps, 1e-5f);
}

TEST(ModelConfig, AudioDefaultsAreTheReleases) {
  const auto m = ParseModelConfig(O45(""), "", "");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  ASSERT_TRUE(m->audio.has_value());
  EXPECT_EQ(m->audio->n_embed, 1024);
  EXPECT_EQ(m->audio->n_layers, 24);
  EXPECT_EQ(m->audio->head_dim(), 64);
  EXPECT_EQ(m->audio->block_frames(), 50);
  EXPECT_EQ(m->audio->n_rows(AudioConfig::n_frames(3000)), 300);
  EXPECT_EQ(m->audio->n_rows(AudioConfig::n_frames(8)), 0);
  EXPECT_EQ(m->audio->n_rows(AudioConfig::n_frames(9)), 1);
}

TEST(ModelConfig, NotEveryModelHears) {
  EXPECT_FALSE(ParseModelConfig(V45(R"("audio_config": {})"), "", "")->audio.has_value());
  EXPECT_FALSE(ParseModelConfig(O45("", R"(, "init_audio": false)"), "", "")->audio.has_value());
  EXPECT_FALSE(ParseModelConfig(Replace(O45(""), "audio_config", "no_config"), "", "")->audio.has_value());
}

TEST(ModelConfig, WrongAudioValuesAreNamed) {
  EXPECT_THAT(ErrorOf(O45(R"("d_model": 0)")), HasSubstr("d_model"));
  EXPECT_THAT(ErrorOf(O45(R"("encoder_layers": "2")")), HasSubstr("encoder_layers"));
  EXPECT_THAT(ErrorOf(O45(R"("encoder_attention_heads": 7)")), HasSubstr("divisor of d_model"));
  EXPECT_THAT(ErrorOf(O45(R"("encoder_ffn_dim": 1e30)")), HasSubstr("encoder_ffn_dim"));
  EXPECT_THAT(ErrorOf(O45(R"("num_mel_bins": 100000)")), HasSubstr("num_mel_bins"));
  EXPECT_THAT(ErrorOf(O45(R"("max_source_positions": -1)")), HasSubstr("max_source_positions"));
  EXPECT_THAT(ErrorOf(O45(R"("activation_function": "relu")")), HasSubstr("activation_function"));
  EXPECT_THAT(ErrorOf(O45("", R"(, "audio_pool_step": 0)")), HasSubstr("audio_pool_step"));
  EXPECT_THAT(ErrorOf(O45("", R"(, "audio_chunk_length": 0.001)")), HasSubstr("audio_chunk_length"));
  EXPECT_THAT(ErrorOf(O45("", R"(, "audio_config": 3)")), HasSubstr("audio_config"));
}

std::string V46() {
  return R"({"model_type": "minicpmv4_6", "drop_vision_last_layer": false, "insert_layer_id": 6, "tie_word_embeddings": true,
    "eos_token_id": 248044, "vision_config": {"hidden_size": 1152, "image_size": 980, "num_attention_heads": 16,
    "num_hidden_layers": 27, "patch_size": 14}, "text_config": {"hidden_size": 1024, "intermediate_size": 3584,
    "num_hidden_layers": 8, "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 248094,
    "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "attention_bias": false,
    "rope_parameters": {"rope_theta": 10000000, "partial_rotary_factor": 0.25, "rope_type": "default"}}})";
}

TEST(ModelConfig, V46) {
  const auto c = ParseModelConfig(V46(), R"({"image_mean": [0.5, 0.25, 0.5], "max_slice_nums": 4})", "");
  ASSERT_TRUE(c.has_value()) << c.error().message;
  EXPECT_EQ(c->family, Family::kMiniCpmV46);
  EXPECT_EQ(c->vision.n_kept_layers(), 27);
  EXPECT_EQ(c->vision.merge_after_layer, 6);
  ASSERT_TRUE(c->merger.has_value());
  EXPECT_EQ(c->merger->n_embed, 1024);
  EXPECT_EQ(c->downsample, 16);
  EXPECT_EQ(c->max_slices, 4);
  EXPECT_EQ(c->image_mean[1], 0.25f);
  const DecoderConfig& d = c->decoder;
  EXPECT_TRUE(d.is_hybrid() && d.qk_norm && d.norms_from_one && d.output_gate && d.tied_head);
  EXPECT_EQ(d.delta_layers, std::vector<bool>({true, true, true, false, true, true, true, false}));
  EXPECT_EQ(d.rotary(), 64);
  EXPECT_EQ(d.rope_theta, 1e7);
  EXPECT_EQ(d.delta.width(), 6144);
  EXPECT_THAT(ErrorOf(Replace(V46(), "\"text_config\"", "\"text\"")), HasSubstr("text_config"));
  EXPECT_THAT(ErrorOf(Replace(V46(), "\"insert_layer_id\": 6", "\"insert_layer_id\": 27")),
              HasSubstr("insert_layer_id"));
  EXPECT_THAT(ErrorOf(Replace(V46(), "\"linear_num_key_heads\": 16", "\"linear_num_key_heads\": 8")),
              HasSubstr("linear_num_value_heads"));
  EXPECT_THAT(ErrorOf(Replace(V46(), "\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 0.001")),
              HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(ErrorOf(Replace(V46(), "\"full_attention_interval\": 4", "\"layer_types\": [\"full_attention\"]")),
              HasSubstr("layer_types"));
  EXPECT_THAT(ErrorOf(Replace(V46(), "\"insert_layer_id\"", "\"downsample_mode\": \"8x\", \"insert_layer_id\"")),
              HasSubstr("downsample_mode"));
}

TEST(ModelConfig, WrongValuesAreNamed) {
  EXPECT_THAT(ErrorOf("{"), HasSubstr("config.json"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("model_type"));
  EXPECT_THAT(ErrorOf(Replace(V45(), "4.5", "3.0")), HasSubstr("\"minicpmv\" version \"3\" is not supported"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("hidden_size": 4096)", R"("hidden_size": -1)")), HasSubstr("hidden_size"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("hidden_size": 4096)", R"("hidden_size": 4097)")),
              HasSubstr("multiple of 128"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("hidden_size": 4096)", R"("hidden_size": "4096")")), HasSubstr("hidden_size"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("num_key_value_heads": 8)", R"("num_key_value_heads": 5)")),
              HasSubstr("num_key_value_heads"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("head_dim": 128)", R"("head_dim": 127)")), HasSubstr("even"));
  EXPECT_THAT(ErrorOf(Replace(V45(), "\"silu\"", "\"gelu\"")), HasSubstr("silu"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("rope_scaling": null)", R"("rope_scaling": {"type": "yarn"})")),
              HasSubstr("default"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("num_attention_heads": 16)", R"("num_attention_heads": 7)")),
              HasSubstr("vision_config"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("image_size": 980)", R"("image_size": 20)")), HasSubstr("image_size"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("batch_3d_resampler": true)", R"("batch_3d_resampler": false)")),
              HasSubstr("batch_3d_resampler"));
  EXPECT_THAT(ErrorOf(Replace(V45(), R"("attention_bias": false)", R"("attention_bias": true)")),
              HasSubstr("attention_bias"));
  EXPECT_THAT(ErrorOf(V45(), R"({"patch_size": 16})"), HasSubstr("preprocessor_config.json"));
  EXPECT_THAT(ErrorOf(V45(), R"({"norm_std": [0.5, 0.5]})"), HasSubstr("three numbers"));
  EXPECT_THAT(ErrorOf(V45(), R"({"norm_std": [0.5, 0, 0.5]})"), HasSubstr("norm_std"));
  EXPECT_THAT(ErrorOf(V45(), "", R"({"eos_token_id": "x"})"), HasSubstr("generation_config.json"));
}

}  // namespace
}  // namespace minicpm
