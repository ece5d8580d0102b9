// Tests of INT4 and INT8 bundles made from the tiny models: the answer does not depend on threads, chunks or company in
// a batch, and stays near the float model's. The tiny weights are random and sensitive: what quantisation does to
// trained weights is measured elsewhere (docs/quantization.md).
#include <algorithm>
#include <cstdio>

#include "convert/convert.h"
#include "gtest/gtest.h"
#include "tests/golden/tiny_model.h"
#include "tests/support/compare.h"

namespace minicpm::test {
namespace {

constexpr int64_t kTokens = 48;

std::string Photo() { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/photos/coffee.jpg"; }

struct Case {
  std::string family;
  std::string format;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::string& family : TinyFamilies()) {
    for (const char* format : {"int8", "int4"}) cases.push_back({family, format});
  }
  return cases;
}

class Quantised : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ConvertOptions options;
    options.checkpoint = TinyFolder(GetParam().family);
    options.folder = temp_.File("bundle");
    options.recipe.weights = GetParam().format;
    options.selftest = false;
    const auto made = ConvertCheckpoint(options);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    folder_ = options.folder;
  }
  std::string folder_;

 private:
  TempDir temp_;
};

INSTANTIATE_TEST_SUITE_P(Families, Quantised, testing::ValuesIn(AllCases()), [](const auto& param) {
  std::string name = param.param.family + "_" + param.param.format;
  for (char& c : name) c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

std::vector<float> Logits(Session& session) {
  const auto logits = session.last_logits();
  return {logits.begin(), logits.end()};
}

TEST_P(Quantised, SameBitsForAnyThreadCountAndChunking) {
  std::vector<int32_t> expected;
  std::vector<float> expected_logits;
  for (const int n_threads : {1, 2, 3}) {
    TinyModel m(GetParam().family, {.n_threads = n_threads, .folder = folder_});
    ASSERT_TRUE(m.ok());
    const Prompt prompt = m.MakePrompt("What is in the image?", {Photo()});
    for (const int64_t chunk : {int64_t{0}, int64_t{100}, int64_t{3}}) {
      m.session.reset();
      m.session = m.NewSession(2048, chunk);
      const auto result = m.session->Generate(prompt, GreedyOptions(kTokens));
      ASSERT_TRUE(result.has_value()) << result.error().message;
      ASSERT_TRUE(m.session->Feed(prompt, nullptr, nullptr).value());
      if (expected.empty()) {
        expected = result->token_ids;
        expected_logits = Logits(*m.session);
      }
      EXPECT_EQ(result->token_ids, expected) << n_threads << " threads, chunks of " << chunk;
      EXPECT_EQ(Logits(*m.session), expected_logits) << n_threads << " threads, chunks of " << chunk;
    }
  }
}

// Eight timelines of different lengths, decoded together and alone: the same bits of all logits, step for step.
TEST_P(Quantised, ABatchOfEightEqualsEachAlone) {
  constexpr size_t kBatch = 8;
  constexpr int kSteps = 12;
  TinyModel m(GetParam().family, {.folder = folder_});
  ASSERT_TRUE(m.ok());
  const int64_t n_vocab = m.backend->shape().n_vocab;
  const std::vector<int32_t> text = m.MakePrompt("Count the parts, then name the colours.", {}).ids;
  const auto width = static_cast<size_t>(n_vocab);

  struct Line {
    SeqId seq;
    std::vector<int32_t> next;
    std::vector<float> logits;
  };
  const auto run = [&](std::vector<Line>& lines) {
    std::vector<StepItem> items(lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      lines[i].logits.resize(width);
      items[i].seq = lines[i].seq;
      items[i].token_ids = lines[i].next;
      items[i].want_logits = WantRows::kLast;
      items[i].logits = Matrix(lines[i].logits.data(), 1, n_vocab);
    }
    ASSERT_TRUE(m.backend->Step(items).has_value());
    for (Line& line : lines) {
      const auto best = std::max_element(line.logits.begin(), line.logits.end()) - line.logits.begin();
      line.next = {static_cast<int32_t>(best)};
    }
  };
  const auto first_ids = [&](size_t i) {
    return std::vector<int32_t>(text.begin() + static_cast<int64_t>(i), text.end());
  };

  std::vector<std::vector<float>> alone[kBatch];
  for (size_t i = 0; i < kBatch; ++i) {
    std::vector<Line> one = {{m.backend->NewSeq(128).value(), first_ids(i), {}}};
    for (int step = 0; step < kSteps; ++step) {
      run(one);
      alone[i].push_back(one[0].logits);
    }
    m.backend->Drop(one[0].seq);
  }
  std::vector<Line> batch;
  for (size_t i = 0; i < kBatch; ++i) batch.push_back({m.backend->NewSeq(128).value(), first_ids(i), {}});
  for (size_t step = 0; step < kSteps; ++step) {
    run(batch);
    for (size_t i = 0; i < kBatch; ++i) EXPECT_EQ(batch[i].logits, alone[i][step]) << "line " << i << " step " << step;
  }
}

TEST_P(Quantised, StaysNearTheFloatModel) {
  std::vector<float> logits[2];
  for (const bool quantised : {false, true}) {
    TinyModel m(GetParam().family, {.weights = DType::kBF16, .folder = quantised ? folder_ : ""});
    ASSERT_TRUE(m.ok());
    ASSERT_TRUE(m.session->Feed(m.MakePrompt("What is in the image?", {Photo()}), nullptr, nullptr).value());
    logits[quantised ? 1 : 0] = Logits(*m.session);
  }
  const Closeness c = Compare<float>(logits[0], logits[1]);
  std::printf("%s %s: cosine of the logits after a picture %.5f\n", GetParam().family.c_str(),
              GetParam().format.c_str(), c.cosine);
  EXPECT_GT(c.cosine, GetParam().format == "int8" ? 0.99 : 0.9);
  EXPECT_LT(c.cosine, 1.0);
}

}  // namespace
}  // namespace minicpm::test
