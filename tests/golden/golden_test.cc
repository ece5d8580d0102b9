// Golden tests: every stage of the pipeline against the float64 reference, for every tiny model and weight type.
// The dumps were written by reference/dump.py; 'within 1e-4' is tests/support/compare.h.
#include <algorithm>
#include <map>
#include <set>

#include "engine/digest.h"
#include "gtest/gtest.h"
#include "models/projector/resampler.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/stage_recorder.h"
#include "tests/golden/tiny_model.h"
#include "tests/support/compare.h"

namespace minicpm::test {
namespace {

constexpr double kTolerance = 1e-4;

struct Case {
  std::string family;
  std::string name;
  DType weights;
  std::string isa;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::string& family : TinyFamilies()) {
    for (const char* name : {"text", "nine_slices", "two_pictures"}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) cases.push_back({family, name, dtype, ""});
    }
    cases.push_back({family, "text", DType::kBF16, "scalar"});
  }
  // One large case on the scalar path: all kernels, every shape of attention; the rest would only take time.
  cases.push_back({"minicpm-v-2_6", "two_pictures", DType::kBF16, "scalar"});
  return cases;
}

class Golden : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(AllCases()), [](const auto& param) {
  std::string s = param.param.family + "_" + param.param.name + "_" + NameOf(param.param.weights) + param.param.isa;
  for (char& c : s) c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return s;
});

TEST_P(Golden, EveryStageAndEveryToken) {
  const Case& param = GetParam();
  const GoldenCase golden = ReadGoldenCase(param.family, param.name);
  const GoldenStages stages(golden.folder);
  TinyModel m(param.family, {.weights = param.weights, .isa = param.isa, .prefill_chunk = 0});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = m.MakePrompt(golden.prompt, golden.images);
  ASSERT_EQ(prompt.ids, golden.prompt_ids);
  ASSERT_EQ(prompt.n_views(), static_cast<int64_t>(golden.views.size()));
  for (size_t i = 0; i < golden.views.size(); ++i) {
    EXPECT_EQ(prompt.spans[i].begin, golden.views[i].first_token);
  }

  Recorder recorder;
  m.backend->set_tap(&recorder);
  ASSERT_TRUE(m.session->Feed(prompt, nullptr, nullptr).value());
  m.backend->set_tap(nullptr);
  EXPECT_GE(CompareStages(stages, recorder, kTolerance), 4);

  auto result = m.session->Generate(prompt, GreedyOptions(static_cast<int64_t>(golden.token_ids.size())));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->token_ids, golden.token_ids);
  EXPECT_EQ(result->text, golden.text);
}

// The goldens are worth comparing with: long, varied, and no step is a coin toss.
TEST(GoldenData, IsNotDegenerate) {
  for (const std::string& family : TinyFamilies()) {
    for (const char* name : {"text", "nine_slices", "two_pictures"}) {
      const GoldenCase golden = ReadGoldenCase(family, name);
      EXPECT_EQ(golden.token_ids.size(), 64u);
      EXPECT_GE(std::set<int32_t>(golden.token_ids.begin(), golden.token_ids.end()).size(), 20u) << family << name;
      EXPECT_GT(*std::min_element(golden.margins.begin(), golden.margins.end()), 1e-3) << family << name;
    }
  }
}

TEST(GoldenPreprocess, ViewsPixelsAndPatches) {
  for (const std::string& family : TinyFamilies()) {
    for (const char* name : {"nine_slices", "two_pictures"}) {
      const GoldenCase golden = ReadGoldenCase(family, name);
      const GoldenStages stages(golden.folder);
      size_t item = 0;
      for (size_t i = 0; i < golden.images.size(); ++i) {
        const auto image = LoadImage(golden.images[i]);
        ASSERT_TRUE(image.has_value()) << image.error().message;
        const SliceConfig config;
        const SlicePlan plan = PlanSlices({image->width, image->height}, config);
        EXPECT_EQ(plan.cols, golden.slice_grids[i][0]);
        EXPECT_EQ(plan.rows, golden.slice_grids[i][1]);
        const auto views = CutViews(*image, plan, config);
        ASSERT_TRUE(views.has_value());
        for (const Image& view : *views) {
          ASSERT_LT(item, golden.views.size());
          const GoldenCase::View& expected = golden.views[item];
          EXPECT_EQ(view.width, expected.width);
          EXPECT_EQ(view.height, expected.height);
          Sha256 hash;
          hash.Update(std::as_bytes(std::span(view.rgb)));
          const auto digest = hash.Finish();
          EXPECT_EQ(Hex(digest), expected.pixels_sha256) << family << " " << name << " view " << item;
          const PatchGrid grid = GridOf({view.width, view.height}, config.patch);
          EXPECT_EQ(grid.rows, expected.grid_rows);
          EXPECT_EQ(grid.cols, expected.grid_cols);
          const std::string key = "view.patches@" + std::to_string(item++);
          if (!stages.Has(key)) continue;
          const float half[3] = {0.5f, 0.5f, 0.5f};
          std::vector<float> patches(static_cast<size_t>(grid.count() * 588));
          FillPatches(view, config.patch, half, half, Matrix(patches.data(), grid.count(), 588));
          const TensorView wanted = stages.Values(key);
          EXPECT_TRUE(Within(std::span(wanted.as<float>(), static_cast<size_t>(wanted.shape.elements())),
                             Pick(patches, 588, stages.Rows(key)), 1e-6))
              << key;
        }
      }
    }
  }
}

// V 4.5's temporal form on the reference's own tower outputs: one still picture and two groups of frames.
TEST(GoldenResampler, TemporalGroups) {
  const std::string folder = TinyFolder("minicpm-v-4_5");
  const auto config = ReadModelConfig(folder);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const auto checkpoint = Checkpoint::Open(folder);
  ASSERT_TRUE(checkpoint.has_value());
  ResamplerWeights weights;
  CheckpointLoader loader(*checkpoint);
  ASSERT_TRUE(VisitResampler(config->resampler, "resampler.", loader, weights).has_value());
  auto compute = Compute::Create({.n_threads = 2});
  ASSERT_TRUE(compute.has_value());
  Recorder recorder;
  (*compute)->set_tap(&recorder);

  const GoldenStages stages(std::string(MINICPM_SOURCE_DIR) + "/tests/data/golden/minicpm-v-4_5/temporal_groups");
  struct Frame {
    int time, rows, cols;
  };
  const std::vector<std::vector<Frame>> groups = {
      {{-1, 4, 5}}, {{0, 6, 4}, {3, 6, 4}}, {{6, 5, 5}, {9, 5, 5}, {12, 3, 7}}};
  int item = 0;
  for (const auto& group : groups) {
    int64_t n_keys = 0;
    for (const Frame& f : group) n_keys += int64_t{f.rows} * f.cols;
    std::vector<float> out(static_cast<size_t>(config->resampler.n_queries * config->resampler.n_embed));
    const int first = item;
    ResamplerRun run(config->resampler, weights, n_keys,
                     Matrix(out.data(), config->resampler.n_queries, config->resampler.n_embed), first);
    for (const Frame& f : group) {
      const TensorView x = stages.Values("vit.post_norm@" + std::to_string(item));
      ASSERT_EQ(x.shape[0], int64_t{f.rows} * f.cols);
      run.AddView(ConstMatrix(x.as<float>(), x.shape[0], x.shape[1]), f.rows, f.cols, f.time, item++);
      while (!run.StepView(**compute)) {
      }
    }
    run.Finish(**compute);
  }
  for (const std::string& key : stages.keys()) {
    if (!key.starts_with("resampler.")) continue;
    const TensorView expected = stages.Values(key);
    const std::vector<float>* actual = recorder.Find(key);
    ASSERT_NE(actual, nullptr) << key;
    EXPECT_TRUE(
        Within(std::span(expected.as<float>(), static_cast<size_t>(expected.shape.elements())), *actual, kTolerance))
        << key;
  }
}

// Known values of the two position tables at E = 4096, to float32's last digits.
TEST(GoldenResampler, PositionTables) {
  std::vector<float> p(4096);
  FillPosition2d(2, 3, 4096, p.data());
  const std::pair<int, float> wanted2d[] = {{0, 0.14112f},     {1, 0.167659f},    {1024, -0.989992f},
                                            {2048, 0.909297f}, {2049, 0.916604f}, {3072, -0.416147f}};
  for (const auto& [i, value] : wanted2d) EXPECT_NEAR(p[static_cast<size_t>(i)], value, 1e-6) << i;
  FillTemporalPosition(5, 4096, p.data());
  const std::pair<int, float> wanted_time[] = {{0, -0.958924f}, {1, -0.965047f}, {2048, 0.283662f}, {2049, 0.262078f}};
  for (const auto& [i, value] : wanted_time) EXPECT_NEAR(p[static_cast<size_t>(i)], value, 1e-6) << i;
}

}  // namespace
}  // namespace minicpm::test
