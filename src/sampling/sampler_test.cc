// Tests of the sampler: greedy ties, each filter alone, the penalty, and that frequencies follow the distribution.
#include "sampling/sampler.h"

#include <cmath>
#include <map>

#include "gtest/gtest.h"

namespace minicpm {
namespace {

std::map<int32_t, int> Draw(SamplingOptions o, std::vector<float> logits, int n) {
  Sampler sampler(o, static_cast<int64_t>(logits.size()));
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    std::vector<float> copy = logits;
    ++counts[sampler.Sample(copy)];
  }
  return counts;
}

SamplingOptions Plain() { return {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .seed = 7}; }

TEST(Sampler, GreedyTakesTheFirstOfEqualMaxima) {
  SamplingOptions o;
  o.temperature = 0.0f;
  Sampler sampler(o, 4);
  std::vector<float> logits = {1.0f, 3.0f, 3.0f, -INFINITY};
  EXPECT_EQ(sampler.Sample(logits), 1);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const auto counts = Draw(Plain(), logits, 20000);
  EXPECT_NEAR(counts.at(0) / 20000.0, 0.5, 0.02);
  EXPECT_NEAR(counts.at(1) / 20000.0, 0.3, 0.02);
  EXPECT_NEAR(counts.at(2) / 20000.0, 0.2, 0.02);
}

TEST(Sampler, TopKKeepsExactlyK) {
  SamplingOptions o = Plain();
  o.top_k = 2;
  const auto counts = Draw(o, {0.0f, 0.0f, 0.0f, 0.1f}, 2000);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains(3) && counts.contains(0));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  SamplingOptions o = Plain();
  o.top_p = 0.6f;
  const auto counts = Draw(o, {std::log(0.5f), std::log(0.3f), std::log(0.2f)}, 2000);
  EXPECT_EQ(counts.size(), 2u);
  o.top_p = 0.0f;
  EXPECT_EQ(Draw(o, {0.0f, 1.0f}, 100).size(), 1u);
}

TEST(Sampler, MinPDropsTheTail) {
  SamplingOptions o = Plain();
  o.min_p = 0.5f;
  EXPECT_EQ(Draw(o, {std::log(0.5f), std::log(0.3f), std::log(0.2f)}, 2000).size(), 2u);
}

TEST(Sampler, PenaltyWorksOnBothSigns) {
  SamplingOptions o;
  o.temperature = 0.0f;
  o.repetition_penalty = 2.0f;
  Sampler sampler(o, 2);
  sampler.Observe(0);
  std::vector<float> positive = {1.5f, 1.0f};
  EXPECT_EQ(sampler.Sample(positive), 1);
  std::vector<float> negative = {-1.0f, -1.5f};
  EXPECT_EQ(sampler.Sample(negative), 1);
}

TEST(Sampler, SameSeedSameDraws) {
  const std::vector<float> logits(50, 0.0f);
  Sampler a(Plain(), 50);
  Sampler b(Plain(), 50);
  for (int i = 0; i < 100; ++i) {
    std::vector<float> x = logits;
    std::vector<float> y = logits;
    EXPECT_EQ(a.Sample(x), b.Sample(y));
  }
}

}  // namespace
}  // namespace minicpm
