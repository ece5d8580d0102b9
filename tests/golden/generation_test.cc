// Tests of generation on the tiny models: the answer does not depend on threads, chunking, rewinding or caching; stops,
// limits and cancelling do what they say.
#include <atomic>
#include <cmath>
#include <cstdio>

#include "gtest/gtest.h"
#include "tests/golden/tiny_model.h"

namespace minicpm::test {
namespace {

constexpr int64_t kTokens = 64;

std::string Photo() { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/photos/coffee.jpg"; }

class Generation : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, Generation, testing::ValuesIn(TinyFamilies()), [](const auto& param) {
  std::string name = param.param;
  for (char& c : name) c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

std::vector<int32_t> Greedy(TinyModel& m, Session& session, const Prompt& prompt) {
  auto result = session.Generate(prompt, GreedyOptions(kTokens));
  EXPECT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(session.length(), static_cast<int64_t>(prompt.ids.size()) + kTokens - 1);
  (void)m;
  return result->token_ids;
}

TEST_P(Generation, SameTokensForAnyThreadCountAndChunking) {
  std::vector<int32_t> expected;
  std::vector<float> expected_logits;
  for (const int n_threads : {1, 2, 3}) {
    TinyModel m(GetParam(), {.n_threads = n_threads});
    ASSERT_TRUE(m.ok());
    const Prompt prompt = m.MakePrompt("What is in the image?", {Photo()});
    ASSERT_GT(prompt.n_views(), 1);
    for (const int64_t chunk : {int64_t{0}, int64_t{256}, int64_t{7}}) {
      m.session.reset();
      m.session = m.NewSession(2048, chunk);
      const std::vector<int32_t> ids = Greedy(m, *m.session, prompt);
      ASSERT_TRUE(m.session->Feed(prompt, nullptr, nullptr).value());
      const auto logits = m.session->last_logits();
      if (expected.empty()) {
        expected = ids;
        expected_logits.assign(logits.begin(), logits.end());
      }
      EXPECT_EQ(ids, expected) << n_threads << " threads, chunks of " << chunk;
      // Stronger than tokens: the same bits.
      EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected_logits.begin()))
          << n_threads << " threads, chunks of " << chunk;
    }
  }
}

TEST_P(Generation, SameTokensAfterRewindAndFeedingAgain) {
  TinyModel m(GetParam(), {.kv = DType::kF16});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = m.MakePrompt("What is in the image?", {Photo()});
  const auto expected = Greedy(m, *m.session, prompt);
  const auto n = static_cast<int64_t>(prompt.ids.size());
  for (const int64_t to : {n + 10, n, n - 1, n - 100, n / 2, int64_t{1}, int64_t{0}}) {
    ASSERT_TRUE(m.session->Rewind(to).has_value());
    EXPECT_EQ(m.session->length(), to);
    EXPECT_EQ(Greedy(m, *m.session, prompt), expected) << "rewound to " << to;
  }
}

// 8-bit keys and values: whatever is read is what was stored, also within a chunk, so feeding whole, in pieces, on any
// number of threads or after going back gives the same bits.
TEST_P(Generation, EightBitCacheDependsOnNothingElse) {
  std::vector<int32_t> expected;
  std::vector<float> expected_logits;
  for (const int n_threads : {1, 3}) {
    TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = DType::kI8, .n_threads = n_threads});
    ASSERT_TRUE(m.ok());
    const Prompt prompt = m.MakePrompt("What is in the image?", {Photo()});
    const auto n = static_cast<int64_t>(prompt.ids.size());
    for (const int64_t chunk : {int64_t{0}, int64_t{7}}) {
      m.session.reset();
      m.session = m.NewSession(2048, chunk);
      const std::vector<int32_t> ids = Greedy(m, *m.session, prompt);
      ASSERT_TRUE(m.session->Feed(prompt, nullptr, nullptr).value());
      const auto logits = m.session->last_logits();
      if (expected.empty()) {
        expected = ids;
        expected_logits.assign(logits.begin(), logits.end());
      }
      EXPECT_EQ(ids, expected) << n_threads << " threads, chunks of " << chunk;
      EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected_logits.begin()))
          << n_threads << " threads, chunks of " << chunk;
      ASSERT_TRUE(m.session->Rewind(n / 2).has_value());
      EXPECT_EQ(Greedy(m, *m.session, prompt), expected) << "after going back";
    }
  }
}

// Feeds `ids` to a fresh sequence of a backend and returns the logits of all rows.
std::vector<float> AllLogits(Backend& backend, const std::vector<int32_t>& ids) {
  const auto seq = backend.NewSeq(static_cast<int64_t>(ids.size()));
  EXPECT_TRUE(seq.has_value());
  std::vector<float> logits(ids.size() * static_cast<size_t>(backend.shape().n_vocab));
  StepItem item;
  item.seq = *seq;
  item.token_ids = ids;
  item.want_logits = WantRows::kAll;
  item.logits = Matrix(logits.data(), static_cast<int64_t>(ids.size()), backend.shape().n_vocab);
  EXPECT_TRUE(backend.Step({&item, 1}).has_value());
  backend.Drop(*seq);
  return logits;
}

TEST_P(Generation, EightBitCacheStaysClose) {
  std::vector<float> rows[3];
  size_t width = 0;
  uint64_t bytes[3] = {};
  const DType formats[] = {DType::kF32, DType::kF16, DType::kI8};
  for (int i = 0; i < 3; ++i) {
    TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = formats[i]});
    ASSERT_TRUE(m.ok());
    width = static_cast<size_t>(m.backend->shape().n_vocab);
    std::vector<int32_t> ids = m.MakePrompt("What is in the image?", {}).ids;
    for (int32_t id = 300; ids.size() < 300; id += 7) ids.push_back(id % 500);
    rows[i] = AllLogits(*m.backend, ids);
    bytes[i] = m.backend->BytesFor(1000);
  }
  for (int i = 1; i < 3; ++i) {
    double worst = 1;
    for (size_t at = 0; at < rows[0].size(); at += width) {
      double aa = 0, bb = 0, ab = 0;
      for (size_t j = at; j < at + width; ++j) {
        aa += static_cast<double>(rows[0][j]) * rows[0][j];
        bb += static_cast<double>(rows[i][j]) * rows[i][j];
        ab += static_cast<double>(rows[0][j]) * rows[i][j];
      }
      worst = std::min(worst, ab / std::sqrt(aa * bb));
    }
    std::printf("%s keys and values against f32: lowest cosine of 300 rows of logits %.7f\n", NameOf(formats[i]),
                worst);
    RecordProperty(std::string("cosine_") + NameOf(formats[i]), std::to_string(worst));
    EXPECT_GT(worst, formats[i] == DType::kF16 ? 0.99999 : 0.998);
    EXPECT_LT(worst, 1.0);  // otherwise the format was not used
  }
  EXPECT_LT(static_cast<double>(bytes[2]), 0.6 * static_cast<double>(bytes[1]));  // heads of the tiny models are small
  EXPECT_EQ(bytes[1] * 2, bytes[0]);
}

// A fork continues bit for bit like its original, and neither disturbs the other.
TEST_P(Generation, ForksOfAnEightBitCacheAgree) {
  TinyModel m(GetParam(), {.weights = DType::kBF16, .kv = DType::kI8});
  ASSERT_TRUE(m.ok());
  const std::vector<int32_t> ids = m.MakePrompt("What is in the image?", {}).ids;
  const auto n_vocab = m.backend->shape().n_vocab;
  const SeqId a = m.backend->NewSeq(512).value();
  const auto feed = [&](SeqId seq, std::span<const int32_t> tokens) {
    std::vector<float> logits(static_cast<size_t>(n_vocab));
    StepItem item;
    item.seq = seq;
    item.token_ids = tokens;
    item.want_logits = WantRows::kLast;
    item.logits = Matrix(logits.data(), 1, n_vocab);
    EXPECT_TRUE(m.backend->Step({&item, 1}).has_value());
    return logits;
  };
  for (int i = 0; i < 6; ++i) feed(a, ids);  // beyond one block
  const SeqId b = m.backend->Fork(a).value();
  const std::vector<int32_t> other(ids.rbegin(), ids.rend());
  const auto first = feed(a, ids);
  feed(b, other);
  ASSERT_TRUE(m.backend->Rewind(b, 6 * static_cast<int64_t>(ids.size())).has_value());
  EXPECT_EQ(feed(b, ids), first);
  const int32_t next[] = {ids[0]};
  EXPECT_EQ(feed(a, next), feed(b, next));
}

TEST_P(Generation, ReusesThePrefixAndOnlyThePrefix) {
  TinyModel m(GetParam(), {});
  ASSERT_TRUE(m.ok());
  const Prompt first = m.MakePrompt("What is in the image?", {Photo()});
  const Prompt second = m.MakePrompt("What is in the picture?", {Photo()});
  auto fresh = m.NewSession(2048, 256);
  auto expected = fresh->Generate(second, GreedyOptions(kTokens));
  ASSERT_TRUE(m.session->Generate(first, GreedyOptions(kTokens)).has_value());
  auto reused = m.session->Generate(second, GreedyOptions(kTokens));
  ASSERT_TRUE(expected.has_value() && reused.has_value());
  EXPECT_EQ(expected->token_ids, reused->token_ids);
  EXPECT_EQ(expected->n_cached_tokens, 0);
  EXPECT_GE(reused->n_cached_tokens, second.n_tokens(MediaKind::kPicture));
  EXPECT_EQ(reused->n_image_tokens, second.n_tokens(MediaKind::kPicture));

  // Another picture with the same shape of prompt must not be taken for the first one.
  auto altered = std::make_shared<ImageInput>(*first.media[0].image);
  Image pixels = altered->image;
  pixels.rgb[pixels.rgb.size() / 2] ^= 0x40;
  Prompt third = first;
  third.media[0].image = MakeImageInput("altered", pixels);
  auto other = m.session->Generate(third, GreedyOptions(1));
  ASSERT_TRUE(other.has_value());
  EXPECT_LE(other->n_cached_tokens, first.spans[0].begin);
}

TEST_P(Generation, LimitsAndCancel) {
  TinyModel m(GetParam(), {.context = 128});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = m.MakePrompt("Hello", {});
  auto five = m.session->Generate(prompt, GreedyOptions(5));
  ASSERT_TRUE(five.has_value());
  EXPECT_EQ(five->token_ids.size(), 5u);
  EXPECT_EQ(five->finish_reason, FinishReason::kLength);

  auto full = m.session->Generate(prompt, GreedyOptions(1000));
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->finish_reason, FinishReason::kContext);
  EXPECT_EQ(full->token_ids.size(), 128 - prompt.ids.size() + 1);

  std::atomic<bool> cancel = true;
  GenerationOptions options = GreedyOptions(1000);
  options.cancel = &cancel;
  auto cancelled = m.session->Generate(prompt, options);
  ASSERT_TRUE(cancelled.has_value());
  EXPECT_EQ(cancelled->finish_reason, FinishReason::kCancelled);

  auto again = m.session->Generate(prompt, GreedyOptions(5));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->token_ids, five->token_ids);

  const Prompt large = m.MakePrompt("Hello", {Photo()});
  auto refused = m.session->Generate(large, GreedyOptions(5));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("128"), std::string::npos);
}

TEST_P(Generation, DamagedWeightsAreAnErrorAndNotAnAnswer) {
  TempDir damaged;
  ASSERT_TRUE(ExpandCheckpoint(TinyFolder(GetParam()), damaged.path(), DType::kBF16).has_value());
  std::string bytes = ReadFileBytes(damaged.File("model.safetensors"));
  // The language model's tensors come first; bf16 0xffff is not a number.
  for (size_t at = bytes.size() / 8; at < bytes.size() / 2; ++at) bytes[at] = '\xff';
  damaged.Write("model.safetensors", bytes);
  auto engine = Engine::Open(damaged.path(), {});
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  auto backend = (*engine)->NewBackend({.context = 128});
  ASSERT_TRUE(backend.has_value());
  auto session = Session::Create(*engine, **backend, {.context = 128});
  Message message;
  message.parts = {{"Hello", nullptr}};
  auto prompt = (*engine)->BuildPrompt({&message, 1}, {});
  ASSERT_TRUE(prompt.has_value());
  for (const float temperature : {0.0f, 1.0f}) {
    GenerationOptions options = GreedyOptions(5);
    options.sampling.temperature = temperature;
    auto result = (*session)->Generate(*prompt, options);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
}

TEST_P(Generation, StopStringsAndStopTokens) {
  TinyModel m(GetParam(), {});
  ASSERT_TRUE(m.ok());
  const Prompt prompt = m.MakePrompt("Hello", {});
  auto plain = m.session->Generate(prompt, GreedyOptions(kTokens));
  ASSERT_TRUE(plain.has_value());
  // A stop string out of the middle of the answer (valid UTF-8 by construction of the text).
  size_t at = plain->text.size() / 2;
  while (at > 0 && (static_cast<uint8_t>(plain->text[at]) & 0xc0) == 0x80) --at;
  size_t end = std::min(at + 3, plain->text.size());
  while (end < plain->text.size() && (static_cast<uint8_t>(plain->text[end]) & 0xc0) == 0x80) ++end;
  GenerationOptions options = GreedyOptions(kTokens);
  options.stop = {plain->text.substr(at, end - at)};
  ASSERT_FALSE(options.stop[0].empty());
  auto stopped = m.session->Generate(prompt, options);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->finish_reason, FinishReason::kStop);
  EXPECT_EQ(stopped->text, plain->text.substr(0, plain->text.find(options.stop[0])));
}

}  // namespace
}  // namespace minicpm::test
