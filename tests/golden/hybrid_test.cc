// Tests of the 4.6 miniature: every stage against the float64 reference in both modes, the same tokens however a prompt
// is cut, restore points and forks of recurrent states, pixels as torchvision makes them.
#include <algorithm>
#include <set>

#include "engine/digest.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/stage_recorder.h"
#include "tests/golden/tiny_model.h"
#include "tests/support/compare.h"

namespace minicpm::test {
namespace {

constexpr char kFamily[] = "minicpm-v-4_6";
constexpr double kTolerance = 1e-4;

Prompt MakePrompt(const TinyModel& m, const GoldenCase& golden) {
  Message message;
  for (const std::string& path : golden.images) {
    auto image = LoadImageInput(path);
    EXPECT_TRUE(image.has_value()) << image.error().message;
    message.parts.push_back({"", *image});
  }
  message.parts.push_back({golden.prompt});
  PromptOptions options;
  options.downsample = golden.name.ends_with("_4x") ? 4 : 16;
  auto prompt = m.engine->BuildPrompt({&message, 1}, options);
  EXPECT_TRUE(prompt.has_value()) << prompt.error().message;
  return *prompt;
}

std::vector<int32_t> Greedy(Session& session, const Prompt& prompt, int64_t n = 64) {
  auto result = session.Generate(prompt, GreedyOptions(n));
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result->token_ids;
}

struct Case {
  std::string name;
  DType weights;
  std::string isa;
};

class Hybrid : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Hybrid,
                         testing::Values(Case{"text", DType::kF32, ""}, Case{"text", DType::kBF16, ""},
                                         Case{"text", DType::kBF16, "scalar"}, Case{"nine_slices", DType::kBF16, ""},
                                         Case{"two_pictures", DType::kF32, ""}, Case{"two_pictures", DType::kF16, ""},
                                         Case{"two_pictures", DType::kBF16, "scalar"},
                                         Case{"two_pictures_4x", DType::kBF16, ""}),
                         [](const auto& param) {
                           return param.param.name + "_" + NameOf(param.param.weights) + param.param.isa;
                         });

TEST_P(Hybrid, EveryStageAndEveryToken) {
  const Case& param = GetParam();
  const GoldenCase golden = ReadGoldenCase(kFamily, param.name);
  const GoldenStages stages(golden.folder);
  TinyModel m(kFamily, {.weights = param.weights, .isa = param.isa, .prefill_chunk = 0});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = MakePrompt(m, golden);
  ASSERT_EQ(prompt.ids, golden.prompt_ids);
  ASSERT_EQ(prompt.spans.size(), golden.views.size());
  for (size_t i = 0; i < golden.views.size(); ++i) EXPECT_EQ(prompt.spans[i].begin, golden.views[i].first_token);

  Recorder recorder;
  m.backend->set_tap(&recorder);
  ASSERT_TRUE(m.session->Feed(prompt, nullptr, nullptr).value());
  m.backend->set_tap(nullptr);
  EXPECT_GE(CompareStages(stages, recorder, kTolerance), 4);
  EXPECT_EQ(Greedy(*m.session, prompt), golden.token_ids);
}

TEST(HybridData, IsNotDegenerate) {
  for (const char* name : {"text", "nine_slices", "two_pictures", "two_pictures_4x"}) {
    const GoldenCase golden = ReadGoldenCase(kFamily, name);
    EXPECT_GE(std::set<int32_t>(golden.token_ids.begin(), golden.token_ids.end()).size(), 20u) << name;
    EXPECT_GT(*std::min_element(golden.margins.begin(), golden.margins.end()), 1e-3) << name;
  }
}

TEST(HybridPreprocess, Pixels) {
  for (const char* name : {"nine_slices", "two_pictures", "two_pictures_4x"}) {
    const GoldenCase golden = ReadGoldenCase(kFamily, name);
    TinyModel m(kFamily, {.weights = DType::kBF16});
    ASSERT_TRUE(m.ok());
    const Prompt prompt = MakePrompt(m, golden);
    size_t item = 0;
    for (const PromptMedia& media : prompt.media) {
      const auto views = CutViews(media.image->image, media.plan, media.slice_config);
      ASSERT_TRUE(views.has_value());
      for (const Image& view : *views) {
        ASSERT_LT(item, golden.views.size());
        EXPECT_EQ(view.width, golden.views[item].width);
        EXPECT_EQ(view.height, golden.views[item].height);
        Sha256 hash;
        hash.Update(std::as_bytes(std::span(view.rgb)));
        const auto digest = hash.Finish();
        EXPECT_EQ(Hex(digest), golden.views[item].pixels_sha256) << name << " view " << item;
        ++item;
      }
    }
  }
}

// The recurrent form: same bits for any cut, with restore points taken on the way.
TEST(HybridState, CuttingThePromptChangesNoBit) {
  const GoldenCase golden = ReadGoldenCase(kFamily, "two_pictures");
  std::vector<float> expected;
  for (const int64_t chunk : {0, 1, 7, 100, 256, 300}) {
    TinyModel m(kFamily, {.weights = DType::kBF16, .n_threads = chunk == 7 ? 1 : 2, .prefill_chunk = chunk});
    ASSERT_TRUE(m.ok());
    const Prompt prompt = MakePrompt(m, golden);
    ASSERT_TRUE(m.session->Feed(prompt, nullptr, nullptr).value());
    const auto logits = m.session->last_logits();
    if (expected.empty()) expected.assign(logits.begin(), logits.end());
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin())) << "chunks of " << chunk;
    EXPECT_EQ(Greedy(*m.session, prompt), golden.token_ids) << "chunks of " << chunk;
  }
}

// A timeline that went elsewhere comes back to a restore point and is fed the rest: the same tokens as a fresh one.
TEST(HybridState, RewindingGivesTheSameTokens) {
  TinyModel m(kFamily, {.weights = DType::kBF16});
  ASSERT_TRUE(m.ok());
  EXPECT_FALSE(m.backend->caps().rewind);
  const GoldenCase pictures = ReadGoldenCase(kFamily, "two_pictures");
  const GoldenCase text = ReadGoldenCase(kFamily, "text");
  const Prompt a = MakePrompt(m, pictures);
  Prompt b = a;  // the same pictures, then other words
  std::rotate(b.ids.end() - 12, b.ids.end() - 9, b.ids.end());
  auto fresh = m.NewSession(2048, 64);
  const std::vector<int32_t> expected_b = Greedy(*fresh, b);
  EXPECT_EQ(Greedy(*m.session, a), pictures.token_ids);
  auto again = m.session->Generate(b, GreedyOptions(64));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->token_ids, expected_b);
  EXPECT_GT(again->n_cached_tokens, 0);  // the end of the pictures is a restore point
  EXPECT_EQ(again->n_encoded_views, 0);
  EXPECT_EQ(Greedy(*m.session, MakePrompt(m, text)), text.token_ids);
  EXPECT_EQ(Greedy(*m.session, a), pictures.token_ids);
  for (const int64_t n : {900, 300, 257, 256, 255, 1, 0}) {
    ASSERT_TRUE(m.session->Rewind(n).has_value());
    EXPECT_LE(m.session->length(), n);
    EXPECT_EQ(Greedy(*m.session, a), pictures.token_ids) << "rewound to " << n;
  }
}

// Logits of one more token in `seq`.
std::vector<float> Next(Backend& backend, SeqId seq, int32_t id) {
  std::vector<float> logits(static_cast<size_t>(backend.shape().n_vocab));
  StepItem item;
  item.seq = seq;
  item.token_ids = {&id, 1};
  item.want_logits = WantRows::kLast;
  item.logits = Matrix(logits.data(), 1, backend.shape().n_vocab);
  EXPECT_TRUE(backend.Step({&item, 1}).has_value());
  return logits;
}

TEST(HybridState, ForksAreIndependentAndBatchesExact) {
  TinyModel m(kFamily, {.weights = DType::kBF16});
  ASSERT_TRUE(m.ok());
  const GoldenCase golden = ReadGoldenCase(kFamily, "text");
  Backend& backend = *m.backend;
  const SeqId a = backend.NewSeq(512).value();
  std::vector<int32_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = golden.prompt_ids[i % golden.prompt_ids.size()];
  StepItem all;
  all.seq = a;
  all.token_ids = ids;
  ASSERT_TRUE(backend.Step({&all, 1}).has_value());
  const SeqId b = backend.Fork(a).value();
  const std::vector<float> other = Next(backend, b, 7);
  const std::vector<float> from_a = Next(backend, a, 11);
  EXPECT_NE(other, from_a);
  EXPECT_EQ(backend.Rewind(b, 299).value(), 256);  // the copy has the restore points, too
  StepItem rest;
  rest.seq = b;
  rest.token_ids = std::span(ids).subspan(256);
  ASSERT_TRUE(backend.Step({&rest, 1}).has_value());
  EXPECT_EQ(Next(backend, b, 11), from_a);

  // Two sequences in one step, one of them past a restore point: the same bits as alone.
  const SeqId c = backend.NewSeq(512).value();
  const int32_t one = 5;
  std::vector<float> together(2 * static_cast<size_t>(backend.shape().n_vocab));
  StepItem items[2];
  items[0].seq = a;
  items[0].token_ids = {&one, 1};
  items[1].seq = c;
  items[1].token_ids = ids;
  for (size_t i = 0; i < 2; ++i) {
    items[i].want_logits = WantRows::kLast;
    items[i].logits = Matrix(together.data() + i * together.size() / 2, 1, backend.shape().n_vocab);
  }
  ASSERT_TRUE(backend.Step(items).has_value());
  const std::vector<float> alone = Next(backend, b, 5);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin()));
  EXPECT_EQ(Next(backend, c, 11), from_a);
}

}  // namespace
}  // namespace minicpm::test
