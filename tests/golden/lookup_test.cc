// Prompt lookup changes nothing but speed: on the tiny models, with many prompts, greedy and sampled, whatever ends the
// answer, tokens, text, reason and the session's state are those of plain decoding.
#include <atomic>
#include <random>

#include "gtest/gtest.h"
#include "tests/golden/tiny_model.h"

namespace minicpm::test {
namespace {

struct Mode {
  Lookup lookup;
  int tokens;
};
constexpr Mode kModes[] = {{Lookup::kOn, 3}, {Lookup::kOn, 7}, {Lookup::kOn, 1}, {Lookup::kAuto, 3}};

// Words in a random order, some said again: short and long matches, and many wrong ones.
std::string RandomText(uint64_t seed) {
  static const std::vector<std::string> words = {"the", "cat",      "label", "{\"a\": 1}", "is",
                                                 "7",   "straight", "\n",    "no"};
  std::mt19937_64 random(seed);
  std::string text;
  const auto n = 1 + random() % 40;
  for (uint64_t i = 0; i < n; ++i) text += words[random() % words.size()] + " ";
  if (seed % 3 == 0) text += text;
  return text;
}

// Counts, so that the test cannot pass by never guessing.
struct Totals {
  int64_t drafted = 0;
  int64_t accepted = 0;
};

void ExpectSame(Session& session, const Prompt& prompt, GenerationOptions options, Totals& totals,
                const std::string& what) {
  options.lookup = Lookup::kOff;
  const auto plain = session.Generate(prompt, options);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(plain->n_drafted_tokens, 0);
  const int64_t length = session.length();
  for (const Mode& mode : kModes) {
    options.lookup = mode.lookup;
    options.lookup_tokens = mode.tokens;
    const auto result = session.Generate(prompt, options);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    const std::string where = what + ", guesses of " + std::to_string(mode.tokens);
    ASSERT_EQ(result->token_ids, plain->token_ids) << where;
    ASSERT_EQ(result->text, plain->text) << where;
    ASSERT_EQ(result->finish_reason, plain->finish_reason) << where;
    ASSERT_EQ(session.length(), length) << where;
    ASSERT_LE(result->n_accepted_tokens, result->n_drafted_tokens);
    totals.drafted += result->n_drafted_tokens;
    totals.accepted += result->n_accepted_tokens;
  }
}

class LookupGolden : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, LookupGolden, testing::ValuesIn(TinyFamilies()), [](const auto& param) {
  std::string name = param.param;
  for (char& c : name) c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

// 67 prompts a family, 201 in all, each greedy and sampled.
TEST_P(LookupGolden, SameTokensOnManyPrompts) {
  TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = DType::kF16});
  ASSERT_TRUE(m.ok());
  Totals totals;
  for (uint64_t i = 0; i < 67; ++i) {
    const Prompt prompt = m.MakePrompt(RandomText(i), {});
    GenerationOptions options = GreedyOptions(24 + static_cast<int64_t>(i) % 9);
    options.ignore_stop_tokens = i % 4 != 0;
    ExpectSame(*m.session, prompt, options, totals, "greedy prompt " + std::to_string(i));
    options.sampling.temperature = i % 2 == 0 ? 0.2f : 1.0f;
    options.sampling.top_k = i % 5 == 0 ? 0 : 20;
    options.sampling.top_p = 0.95f;
    options.sampling.repetition_penalty = i % 3 == 0 ? 1.0f : 1.1f;
    options.sampling.seed = i;
    ExpectSame(*m.session, prompt, options, totals, "sampled prompt " + std::to_string(i));
  }
  EXPECT_GT(totals.drafted, 1000);
  EXPECT_GT(totals.accepted, 20);
}

// A repetition penalty below 1 makes the models say the same again: many guesses are right, so that every
// kind of end falls into a draft.
GenerationOptions Repeating(int64_t n) {
  GenerationOptions options = GreedyOptions(n);
  options.sampling.repetition_penalty = 0.5f;
  return options;
}

TEST_P(LookupGolden, EveryEndInsideADraft) {
  TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = DType::kF16});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = m.MakePrompt("Hello, hello, hello", {});
  Totals totals;
  for (int64_t n = 1; n <= 40; ++n) ExpectSame(*m.session, prompt, Repeating(n), totals, "length");
  EXPECT_GT(totals.accepted, 300);
  for (int64_t room = 1; room <= 12; ++room) {
    const auto context = static_cast<int64_t>(prompt.ids.size()) + 20 + room;
    const auto session = m.NewSession(context, 0);
    ASSERT_NE(session, nullptr);
    ExpectSame(*session, prompt, Repeating(1000), totals, "context " + std::to_string(context));
    EXPECT_EQ(session->length(), context);
  }
  auto plain = m.session->Generate(prompt, Repeating(64));
  ASSERT_TRUE(plain.has_value());
  for (size_t at = plain->text.size() / 3; at + 2 < plain->text.size(); at += 3) {
    if ((static_cast<uint8_t>(plain->text[at]) & 0xc0) == 0x80) continue;
    GenerationOptions options = Repeating(64);
    options.stop = {plain->text.substr(at, 5)};
    ExpectSame(*m.session, prompt, options, totals, "stop string at " + std::to_string(at));
  }
}

// Cancels after a number of pieces of text.
class CancelAfter : public GenerationListener {
 public:
  explicit CancelAfter(int pieces) : left_(pieces) {}
  void OnText(std::string_view) override {
    if (--left_ <= 0) flag = true;
  }
  std::atomic<bool> flag = false;

 private:
  int left_;
};

TEST_P(LookupGolden, CancelInsideADraftLeavesAUsableSession) {
  TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = DType::kF16});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = m.MakePrompt("Hello, hello, hello", {});
  for (int pieces = 1; pieces <= 20; ++pieces) {
    std::vector<int32_t> expected;
    int64_t length = 0;
    for (const Lookup lookup : {Lookup::kOff, Lookup::kOn}) {
      GenerationOptions options = Repeating(64);
      options.lookup = lookup;
      CancelAfter cancel(pieces);
      options.cancel = &cancel.flag;
      const auto result = m.session->Generate(prompt, options, &cancel);
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->finish_reason, FinishReason::kCancelled);
      if (lookup == Lookup::kOff) {
        expected = result->token_ids;
        length = m.session->length();
      }
      EXPECT_EQ(result->token_ids, expected);
      EXPECT_EQ(m.session->length(), length);
    }
  }
  // What the timeline holds after all this is what was said: the answer goes on as if nothing had happened.
  Prompt longer = prompt;
  const auto some = m.session->Generate(prompt, Repeating(30));
  ASSERT_TRUE(some.has_value());
  longer.ids.insert(longer.ids.end(), some->token_ids.begin(), some->token_ids.end());
  const auto next = m.session->Generate(longer, GreedyOptions(10));
  const auto fresh = m.NewSession(512, 0);
  const auto expected = fresh->Generate(longer, GreedyOptions(10));
  ASSERT_TRUE(next.has_value() && expected.has_value());
  EXPECT_EQ(next->token_ids, expected->token_ids);
  EXPECT_EQ(next->n_cached_tokens, static_cast<int64_t>(longer.ids.size()) - 1);
}

// A picture's placeholders all look alike; guesses among them must do no harm.
TEST_P(LookupGolden, SameTokensWithAPicture) {
  TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = DType::kF16});
  ASSERT_TRUE(m.ok());
  const Prompt prompt =
      m.MakePrompt("What is in the image?", {std::string(MINICPM_SOURCE_DIR) + "/tests/data/photos/coffee.jpg"});
  Totals totals;
  ExpectSame(*m.session, prompt, GreedyOptions(64), totals, "picture, greedy");
  ExpectSame(*m.session, prompt, Repeating(64), totals, "picture, repeating");
}

}  // namespace
}  // namespace minicpm::test
