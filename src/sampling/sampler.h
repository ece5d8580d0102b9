// Sampler: logits -> one token id. Greedy, or temperature with top-k, top-p, min-p and a repetition penalty.
// Takes a plain row of floats; knows no model, no text and no threads.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace minicpm {

struct SamplingOptions {
  float temperature = 0.7f;         // 0 = greedy
  int32_t top_k = 100;              // 0 = off
  float top_p = 0.8f;               // 1 = off
  float min_p = 0.0f;               // 0 = off; keeps tokens with p >= min_p * p_max
  float repetition_penalty = 1.0f;  // 1 = off; Keskar et al. 2019 (CTRL), over generated tokens
  uint64_t seed = 0;
};

// Order as in transformers' logits processors: penalty, temperature, top-k, top-p, min-p.
// Threads: none. Allocates only in the constructor (n_vocab floats and ids).
class Sampler {
 public:
  Sampler(const SamplingOptions& options, int64_t n_vocab);
  // Requires: logits.size() == n_vocab; finite or -inf. Ties go to the lowest id. `logits` is overwritten by the
  // penalty.
  int32_t Sample(std::span<float> logits);
  // Tells the penalty that `id` has been produced. Ids seen before are free.
  void Observe(int32_t id);

 private:
  int32_t Greedy(std::span<const float> logits) const;
  double Uniform();  // [0, 1)

  SamplingOptions options_;
  std::vector<bool> seen_;
  std::vector<int32_t> seen_ids_;
  std::vector<int32_t> candidates_;
  std::vector<double> weights_;
  std::mt19937_64 random_;
};

}  // namespace minicpm
