// Tests of PromptLookup: what it finds, that it learns where guessing pays, and that it never reads past its tokens.
#include "engine/prompt_lookup.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace minicpm {
namespace {

std::vector<int32_t> GuessAfter(const std::vector<int32_t>& tokens, int most) {
  PromptLookup lookup(static_cast<int64_t>(tokens.size()));
  lookup.Append(tokens);
  std::vector<int32_t> out(static_cast<size_t>(most));
  out.resize(static_cast<size_t>(lookup.Guess(out)));
  return out;
}

TEST(PromptLookup, FindsWhatFollowedLastTime) {
  EXPECT_EQ(GuessAfter({1, 2, 3, 4, 5, 6, 9, 1, 2}, 3), (std::vector<int32_t>{3, 4, 5}));
  EXPECT_EQ(GuessAfter({1, 2, 3, 4, 5, 6, 9, 1, 2}, 1), (std::vector<int32_t>{3}));
  EXPECT_TRUE(GuessAfter({1, 2, 3, 4, 5}, 3).empty());
  EXPECT_TRUE(GuessAfter({}, 3).empty());
  EXPECT_TRUE(GuessAfter({7}, 3).empty());
}

TEST(PromptLookup, PrefersTheLongestMatchAndOfEqualOnesTheLatest) {
  EXPECT_EQ(GuessAfter({1, 2, 3, 4, 9, 3, 5, 9, 2, 3}, 1), (std::vector<int32_t>{4}));  // "2 3" beats "3"
  EXPECT_EQ(GuessAfter({8, 2, 3, 4, 8, 2, 3, 5, 8, 2, 3}, 1), (std::vector<int32_t>{5}));
}

TEST(PromptLookup, ContinuesShortRepetitionsInTheDraft) {
  EXPECT_EQ(GuessAfter({5, 5}, 4), (std::vector<int32_t>{5, 5, 5, 5}));
  EXPECT_EQ(GuessAfter({1, 2, 1, 2}, 5), (std::vector<int32_t>{1, 2, 1, 2, 1}));
}

// Against the plain definition, on texts over a small alphabet: the guess follows a place with the longest match that
// any place has, up to the three tokens that are indexed; longer ones are found when they have grown step by step.
// The index may lose a place to another one, seldom.
TEST(PromptLookup, AgreesWithSearchingEverything) {
  std::mt19937 random(11);
  int missed = 0;
  for (int round = 0; round < 200; ++round) {
    const int alphabet = 2 + round % 9;
    std::vector<int32_t> tokens;
    PromptLookup lookup(120);
    for (int i = 0; i < 120; ++i) {
      const auto id = static_cast<int32_t>(random() % static_cast<unsigned>(alphabet));
      tokens.push_back(id);
      lookup.Append(id);
      int64_t longest = 0;
      for (size_t end = 0; end + 1 < tokens.size(); ++end) {
        int64_t n = 0;
        while (n <= static_cast<int64_t>(end) &&
               tokens[end - static_cast<size_t>(n)] == tokens[tokens.size() - 1 - static_cast<size_t>(n)]) {
          ++n;
        }
        longest = std::max(longest, n);
      }
      missed += lookup.match_length() < std::min<int64_t>(longest, 3) ? 1 : 0;
      ASSERT_LE(lookup.match_length(), longest);
      int32_t guess[1];
      ASSERT_EQ(lookup.Guess(guess), lookup.match_length() > 0 ? 1 : 0);
    }
  }
  EXPECT_LT(missed, 24) << "of 24000 places";
}

TEST(PromptLookup, LearnsNotToGuessInNoise) {
  std::mt19937 random(5);
  PromptLookup lookup(20000);
  const StepCosts costs;
  int64_t drafted = 0;
  int64_t late = 0;
  for (int i = 0; i < 20000; ++i) {
    lookup.Append(static_cast<int32_t>(random() % 50));  // matches everywhere, none of them means anything
    int32_t out[3];
    const int n = lookup.GuessWorthwhile(out, costs);
    drafted += n;
    if (i >= 2000) late += n;
  }
  EXPECT_LT(drafted, 400);
  EXPECT_LT(late, 200) << "of 18000 tokens";
}

TEST(PromptLookup, GuessesAllTheWayThroughACopyAndLearnsTheEnd) {
  std::mt19937 random(6);
  std::vector<int32_t> text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<int32_t>(random() % 5000));
  PromptLookup lookup(700);
  const StepCosts costs;
  lookup.Append(text);
  int right = 0;
  int steps = 0;
  size_t i = 0;
  while (i < text.size()) {
    int32_t out[3];
    const int n = lookup.GuessWorthwhile(out, costs);
    size_t accepted = 0;
    while (accepted < static_cast<size_t>(n) && i + accepted < text.size() && out[accepted] == text[i + accepted]) {
      ++accepted;
    }
    right += static_cast<int>(accepted);
    ++steps;
    for (size_t j = 0; j <= accepted && i < text.size(); ++j) lookup.Append(text[i++]);
  }
  EXPECT_GT(right, 200);
  EXPECT_LT(steps, 100);  // of 300 tokens
}

TEST(PromptLookup, DearRowsAreNotAskedFor) {
  PromptLookup lookup(100);
  for (int i = 0; i < 40; ++i) lookup.Append(i % 4);
  int32_t out[7];
  StepCosts costs;
  EXPECT_GT(lookup.GuessWorthwhile(out, costs), 0);
  for (int rows = 1; rows <= StepCosts::kMostRows; ++rows) {
    for (int i = 0; i < 10; ++i) costs.Observe(rows, 10.0 * rows * rows);
  }
  EXPECT_EQ(lookup.GuessWorthwhile(out, costs), 0);
  for (int i = 0; i < 100; ++i) costs.Observe(3, 10.5);
  EXPECT_EQ(lookup.GuessWorthwhile(out, costs), 2);
}

TEST(StepCosts, BelievesMeasurementsOnlyAfterAFew) {
  StepCosts costs;
  const double typical = costs.Relative(4);
  EXPECT_EQ(costs.Relative(1), 1.0);
  EXPECT_GT(typical, 1.0);
  costs.Observe(1, 10);
  costs.Observe(4, 30);
  EXPECT_EQ(costs.Relative(4), typical);
  for (int i = 0; i < 20; ++i) {
    costs.Observe(1, 10);
    costs.Observe(4, 30);
  }
  EXPECT_NEAR(costs.Relative(4), 3.0, 1e-9);
  for (int i = 0; i < 20; ++i) costs.Observe(4, 1);
  EXPECT_EQ(costs.Relative(4), 1.0);  // never a reason to guess for its own sake
}

// Words of three tokens, always the same in the prompt; the answer's words end otherwise. Guessing their ends must stop
// after a few failures, however often the prompt's words were right.
TEST(PromptLookup, AnAnswerUnlikeItsPromptEndsTheGuessing) {
  const auto failures = [](bool begin_answer) {
    PromptLookup lookup(4096);
    uint32_t state = 1;
    const auto word = [&state] { return static_cast<int32_t>((state = state * 1664525u + 1013904223u) >> 27) * 10; };
    for (int i = 0; i < 400; ++i) {
      const int32_t w = word();
      for (const int32_t id : {w, w + 1, w + 2}) lookup.Append(id);
    }
    if (begin_answer) lookup.BeginAnswer();
    int guessed = 0;
    int32_t out[3];
    for (int i = 0; i < 200; ++i) {
      const int32_t w = word();
      lookup.Append(w);
      lookup.Append(w + 1);
      guessed += lookup.GuessWorthwhile(out, StepCosts()) > 0 ? 1 : 0;
      lookup.Append(1000 + i);
    }
    return guessed;
  };
  EXPECT_LT(failures(true), 30);   // of 200; every length of match learns by itself
  EXPECT_GT(failures(false), 60);  // otherwise the prompt would not tempt
}

}  // namespace
}  // namespace minicpm
