// Implementation of prompt_lookup.h.
#include "engine/prompt_lookup.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace minicpm {
namespace {

// Reading the weights once serves up to four rows almost for nothing; beyond that arithmetic shows.
constexpr double kTypicalCost[StepCosts::kMostRows + 1] = {1, 1, 1.1, 1.25, 1.3, 1.6, 1.75, 2.0, 2.3};
constexpr int kMeasuredSteps = 3;  // of both kinds, before measured costs are believed

constexpr int64_t kLeastSlots = 1 << 12;
constexpr int64_t kMostSlots = 1 << 20;  // a longer timeline forgets its oldest places

// The first guess after a match of 1, 2, 3, 4-5, 6-8, 9-16 and more tokens: how often it is right in text nobody has
// seen yet, and how many sightings that belief is worth.
constexpr double kPrior[] = {0.05, 0.15, 0.3, 0.5, 0.65, 0.8, 0.9};
constexpr double kPriorWeight = 4;
constexpr double kMemory = 64;  // sightings after which older ones count half
// Sightings that the prompt's own repetitions may be worth: a text that repeats itself says little about its answer.
constexpr double kPromptTrust = 4;
constexpr double kLeastGain = 1.03;  // a draft must promise at least this speed-up

}  // namespace

void StepCosts::Observe(int rows, double ms) {
  MINICPM_CHECK(rows >= 1 && rows <= kMostRows);
  Mean& mean = means_[static_cast<size_t>(rows)];
  mean.n = std::min(mean.n + 1, 8);
  mean.ms += (ms - mean.ms) / mean.n;
}

double StepCosts::Relative(int rows) const {
  MINICPM_CHECK(rows >= 1 && rows <= kMostRows);
  const Mean& one = means_[1];
  const Mean& many = means_[static_cast<size_t>(rows)];
  if (one.n < kMeasuredSteps || many.n < kMeasuredSteps || one.ms <= 0) return kTypicalCost[rows];
  return std::max(many.ms / one.ms, 1.0);
}

PromptLookup::PromptLookup(int64_t capacity) {
  MINICPM_CHECK(capacity >= 0 && capacity < INT32_MAX);
  tokens_.reserve(static_cast<size_t>(capacity));
  const auto slots = std::bit_ceil(static_cast<uint64_t>(std::clamp(2 * capacity, kLeastSlots, kMostSlots)));
  shift_ = 64 - std::countr_zero(slots);
  for (auto& index : index_) index.assign(slots, -1);
}

int PromptLookup::BucketOf(int64_t match) {
  if (match <= 3) return static_cast<int>(match) - 1;
  return match <= 5 ? 3 : match <= 8 ? 4 : match <= 16 ? 5 : 6;
}

double PromptLookup::Probability(int64_t match) const {
  const int bucket = BucketOf(match);
  const Record& r = records_[static_cast<size_t>(bucket)];
  return (r.hits + kPrior[bucket] * kPriorWeight) / (r.n + kPriorWeight);
}

// How many tokens up to place `end` equal those up to the last one.
int64_t PromptLookup::MatchLength(int64_t end) const {
  const int32_t* const a = tokens_.data() + end;
  const int32_t* const b = tokens_.data() + tokens_.size() - 1;
  const int64_t most = std::min(end + 1, kLongestMatch);
  int64_t n = 0;
  while (n < most && a[-n] == b[-n]) ++n;
  return n;
}

// Of the last n tokens. Requires: as many are there.
size_t PromptLookup::Slot(int n) const {
  uint64_t hash = static_cast<uint64_t>(n);
  for (int i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens_[tokens_.size() - 1 - static_cast<size_t>(i)])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>((hash * 0xbf58476d1ce4e5b9u) >> shift_);
}

// Looks the last tokens up, longest first, and remembers this place for later.
void PromptLookup::FindSource() {
  const auto last = static_cast<int32_t>(tokens_.size() - 1);
  const int longest = static_cast<int>(std::min<size_t>(tokens_.size(), kNgrams));
  for (int n = longest; n >= 1; --n) {
    int32_t& place = index_[static_cast<size_t>(n - 1)][Slot(n)];
    // Whoever already follows a match of this length keeps it: its source has proved itself.
    if (match_ < n && place >= 0) {
      const int64_t length = MatchLength(place);
      if (length > match_) {
        match_ = length;
        source_ = place;
      }
    }
    place = last;
  }
}

void PromptLookup::Append(int32_t id) {
  MINICPM_CHECK(tokens_.size() < tokens_.capacity());
  bool right = false;
  if (match_ > 0) {
    right = tokens_[static_cast<size_t>(source_ + 1)] == id;
    Record& r = records_[static_cast<size_t>(BucketOf(match_))];
    if (r.n >= kMemory) {
      r.hits /= 2;
      r.n /= 2;
    }
    r.n += 1;
    r.hits += right ? 1 : 0;
  }
  tokens_.push_back(id);
  if (right) {
    ++source_;
    match_ = std::min(match_ + 1, kLongestMatch);
  } else {
    source_ = -1;
    match_ = 0;
  }
  FindSource();
}

void PromptLookup::Append(std::span<const int32_t> ids) {
  for (const int32_t id : ids) Append(id);
}

void PromptLookup::BeginAnswer() {
  for (Record& r : records_) {
    if (r.n <= kPromptTrust) continue;
    r.hits *= kPromptTrust / r.n;
    r.n = kPromptTrust;
  }
}

int PromptLookup::Guess(std::span<int32_t> out) const {
  if (match_ == 0) return 0;
  const int n = static_cast<int>(std::min<size_t>(out.size(), kMostTokens));
  const auto length = static_cast<int64_t>(tokens_.size());
  for (int i = 0; i < n; ++i) {
    // What repeats itself sooner than the draft is long goes on in the draft.
    const int64_t at = source_ + 1 + i;
    out[static_cast<size_t>(i)] =
        at < length ? tokens_[static_cast<size_t>(at)] : out[static_cast<size_t>(at - length)];
  }
  return n;
}

int PromptLookup::GuessWorthwhile(std::span<int32_t> out, const StepCosts& costs) const {
  if (match_ == 0) return 0;
  const int most = static_cast<int>(std::min<size_t>(out.size(), kMostTokens));
  int best = 0;
  double best_gain = kLeastGain;
  double tokens = 1;       // expected of the step
  double probability = 1;  // that all guesses so far are right
  for (int n = 1; n <= most; ++n) {
    probability *= Probability(std::min(match_ + n - 1, kLongestMatch));
    tokens += probability;
    const double gain = tokens / costs.Relative(n + 1);
    if (gain > best_gain) {
      best = n;
      best_gain = gain;
    }
  }
  return Guess(out.first(static_cast<size_t>(best)));
}

}  // namespace minicpm
