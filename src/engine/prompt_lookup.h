// PromptLookup: guesses the next tokens from where the last ones stood before, in the prompt or in the answer so far.
// A guess may only save time: Session lets the model check it. Not for feeding, sampling or drafts of another model.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace minicpm {

// What a step with several rows costs against a step with one: measured as generation goes, typical figures of
// memory-bound decoding until then.
class StepCosts {
 public:
  static constexpr int kMostRows = 8;
  void Observe(int rows, double ms);
  // Requires: 1 <= rows <= kMostRows.
  double Relative(int rows) const;

 private:
  struct Mean {
    double ms = 0;
    int n = 0;
  };
  std::array<Mean, kMostRows + 1> means_;
};

// Threads: none. Allocates in the constructor only.
class PromptLookup {
 public:
  static constexpr int kMostTokens = StepCosts::kMostRows - 1;

  // For at most `capacity` tokens, prompt and answer together.
  explicit PromptLookup(int64_t capacity);

  // The next token of the timeline. Learns whether the guess for this place would have been right, taken or not.
  void Append(int32_t id);
  void Append(std::span<const int32_t> ids);
  // What follows is the model's own: what the text so far taught about guessing counts for little.
  void BeginAnswer();

  // Up to out.size() guesses (<= kMostTokens) of what comes next; returns how many were written.
  int Guess(std::span<int32_t> out) const;
  // The same, but only as many as are likely to pay: tokens gained against the cost of the rows that check them.
  int GuessWorthwhile(std::span<int32_t> out, const StepCosts& costs) const;

  // Tokens before this place that equal those before the guess, 0 = there is no guess. Counted up to kLongestMatch.
  int64_t match_length() const { return match_; }
  static constexpr int64_t kLongestMatch = 32;

 private:
  static constexpr int kNgrams = 3;   // indexed lengths 1..3
  static constexpr int kBuckets = 7;  // match lengths told apart
  struct Record {                     // how often the first guess was right, old news fading
    double hits = 0;
    double n = 0;
  };
  static int BucketOf(int64_t match);
  double Probability(int64_t match) const;
  int64_t MatchLength(int64_t end) const;
  size_t Slot(int n) const;
  void FindSource();

  std::vector<int32_t> tokens_;
  // index_[n - 1]: where the n-gram of a slot ended last, -1 = never. Slots are shared; a match is checked.
  std::array<std::vector<int32_t>, kNgrams> index_;
  int shift_ = 0;
  int64_t source_ = -1;  // the place whose followers are guessed
  int64_t match_ = 0;
  std::array<Record, kBuckets> records_;
};

}  // namespace minicpm
