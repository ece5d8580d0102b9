// The choice of formats: defaults, overrides, contradictions.
#include "convert/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/native/native_model.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

ModelConfig Config(bool tied) {
  ModelConfig c;
  c.vision.n_embed = 144;
  c.vision.n_ffn = 304;
  c.vision.n_layers = 2;
  c.vision.n_heads = 2;
  c.decoder.n_embed = 256;
  c.decoder.n_ffn = 200;
  c.decoder.n_layers = 2;
  c.decoder.n_heads = 8;
  c.decoder.n_kv_heads = 2;
  c.decoder.head_dim = 32;
  c.decoder.n_vocab = 100;
  c.decoder.qk_norm = true;
  c.decoder.tied_head = tied;
  c.resampler.n_embed = 256;
  c.resampler.n_input = 144;
  c.audio.emplace();
  c.audio->n_embed = 72;
  c.audio->n_heads = 3;
  c.audio->n_layers = 1;
  c.audio->n_ffn = 200;
  return c;
}

std::vector<SourceTensor> Source(const ModelConfig& config) {
  std::vector<SourceTensor> source;
  for (const PartListing& part : ListTensors(config)) {
    for (const TensorSpec& spec : part.tensors) source.push_back({spec.name, DType::kBF16, spec.shape});
  }
  source.push_back({"tts.head.weight", DType::kF32, Shape{2, 2}});
  return source;
}

Result<Plan> PlanWith(const RecipeOptions& options, bool tied = false) {
  const ModelConfig config = Config(tied);
  return MakePlan(config, Source(config), options);
}

DType Of(const Plan& plan, std::string_view name) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.name == name) return tensor.dtype;
  }
  ADD_FAILURE() << name << " is not in the plan";
  return DType::kU8;
}

std::string ErrorOf(const RecipeOptions& options, bool tied = false) {
  const auto plan = PlanWith(options, tied);
  if (plan.has_value()) return "no error";
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  return plan.error().message;
}

constexpr const char* kGate = "llm.model.layers.0.mlp.gate_proj.weight";
constexpr const char* kQ = "vpm.encoder.layers.0.self_attn.q_proj.weight";
constexpr const char* kAudioQ = "apm.layers.0.self_attn.q_proj.weight";
constexpr const char* kTable = "llm.model.embed_tokens.weight";

TEST(Recipe, Int4PacksTheLanguageAndKeepsVisionAtInt8) {
  const auto plan = PlanWith({});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(Of(*plan, kGate), DType::kInt4Packed);
  EXPECT_EQ(Of(*plan, kTable), DType::kInt4Packed);
  EXPECT_EQ(Of(*plan, "llm.lm_head.weight"), DType::kInt4Packed);
  EXPECT_EQ(Of(*plan, kQ), DType::kInt8Packed);
  EXPECT_EQ(Of(*plan, "resampler.attn.in_proj_weight"), DType::kInt8Packed);
  EXPECT_EQ(Of(*plan, kAudioQ), DType::kInt8Packed);
  EXPECT_EQ(Of(*plan, "audio_projection_layer.linear2.weight"), DType::kInt8Packed);
  for (const char* name : {"vpm.embeddings.patch_embedding.weight", "vpm.embeddings.position_embedding.weight",
                           "resampler.proj", "resampler.query", "llm.model.norm.weight", "apm.conv1.weight",
                           "apm.embed_positions.weight", "apm.layers.0.self_attn.q_proj.bias"}) {
    EXPECT_EQ(Of(*plan, name), DType::kBF16) << name;
  }
  ASSERT_EQ(plan->dropped.size(), 1u);
  EXPECT_EQ(plan->dropped[0].name, "tts.head.weight");
  EXPECT_EQ(plan->recipe.at("vision"), "int8");
  EXPECT_EQ(plan->recipe.at("audio"), "int8");
}

TEST(Recipe, FloatsChangeEverythingButVectors) {
  RecipeOptions options;
  options.weights = "f16";
  const auto plan = PlanWith(options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  for (const char* name :
       {kGate, kTable, kQ, kAudioQ, "apm.conv1.weight", "resampler.proj", "vpm.embeddings.position_embedding.weight"}) {
    EXPECT_EQ(Of(*plan, name), DType::kF16) << name;
  }
  EXPECT_EQ(Of(*plan, "llm.model.norm.weight"), DType::kBF16);
  EXPECT_EQ(Of(*plan, "apm.conv1.bias"), DType::kBF16);
}

TEST(Recipe, PartsAndPatternsOverride) {
  RecipeOptions options;
  options.weights = "int8";
  options.vision = "bf16";
  options.head = "f32";
  options.audio = "f16";
  options.keep = {"llm.model.layers.*.mlp.*=f16", "llm.model.layers.1.*_proj.weight=source"};
  options.keep_unused = true;
  const auto plan = PlanWith(options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(Of(*plan, kQ), DType::kBF16);
  EXPECT_EQ(Of(*plan, "llm.lm_head.weight"), DType::kF32);
  EXPECT_EQ(Of(*plan, kTable), DType::kInt8Packed);
  EXPECT_EQ(Of(*plan, kGate), DType::kF16);
  EXPECT_EQ(Of(*plan, "llm.model.layers.1.mlp.gate_proj.weight"), DType::kBF16);
  EXPECT_EQ(Of(*plan, "apm.conv1.weight"), DType::kF16);
  EXPECT_EQ(Of(*plan, kAudioQ), DType::kF16);
  EXPECT_EQ(Of(*plan, "apm.conv1.bias"), DType::kBF16);
  EXPECT_EQ(Of(*plan, "tts.head.weight"), DType::kF32);
  EXPECT_TRUE(plan->dropped.empty());
}

TEST(Recipe, ATiedHeadIsTheTable) {
  RecipeOptions options;
  options.head = "bf16";
  const auto plan = PlanWith(options, true);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(Of(*plan, kTable), DType::kBF16);
  options.embeddings = "int4";
  EXPECT_THAT(ErrorOf(options, true), HasSubstr("contradict"));
}

TEST(Recipe, WrongOptionsAreNamed) {
  RecipeOptions options;
  options.weights = "q4";
  EXPECT_THAT(ErrorOf(options), HasSubstr("--weights: expected f32"));
  options = {};
  options.audio = "int4";
  EXPECT_THAT(ErrorOf(options), HasSubstr("--audio"));
  for (const auto& [keep, part] : std::map<std::string, std::string>{{"nothing*=bf16", "no tensor"},
                                                                     {"llm.*", "PATTERN=FORMAT"},
                                                                     {"llm.*=f8", "f8"},
                                                                     {"resampler.query=int4", "cannot be packed"}}) {
    options = {};
    options.keep = {keep};
    EXPECT_THAT(ErrorOf(options), HasSubstr(part)) << keep;
  }
}

TEST(Recipe, TensorsThatAreMissingOrOddAreNamed) {
  const ModelConfig config = Config(false);
  std::vector<SourceTensor> source = Source(config);
  source[3].shape = Shape{1, 2};
  const auto wrong = MakePlan(config, source, {});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr(source[3].name));
  const std::string gone = source[3].name;
  source.erase(source.begin() + 3);
  const auto missing = MakePlan(config, source, {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(gone));
}

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(MatchesGlob("a*c", "abbbc"));
  EXPECT_TRUE(MatchesGlob("*", ""));
  EXPECT_TRUE(MatchesGlob("*.weight", "x.weight"));
  EXPECT_TRUE(MatchesGlob("a?c*", "abc"));
  EXPECT_TRUE(MatchesGlob("*a*b", "aab"));
  EXPECT_FALSE(MatchesGlob("a?c", "ac"));
  EXPECT_FALSE(MatchesGlob("a*c", "abd"));
  EXPECT_FALSE(MatchesGlob("", "a"));
  EXPECT_FALSE(MatchesGlob("*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace minicpm
