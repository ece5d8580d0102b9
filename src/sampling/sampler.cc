// Implementation of sampler.h.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace minicpm {

Sampler::Sampler(const SamplingOptions& options, int64_t n_vocab) : options_(options), random_(options.seed) {
  const auto n = static_cast<size_t>(n_vocab);
  seen_.assign(n, false);
  seen_ids_.reserve(n);
  if (options_.temperature > 0.0f) {
    candidates_.resize(n);
    weights_.resize(n);
  }
}

void Sampler::Observe(int32_t id) {
  const auto i = static_cast<size_t>(id);
  if (i >= seen_.size() || seen_[i]) return;
  seen_[i] = true;
  seen_ids_.push_back(id);
}

int32_t Sampler::Greedy(std::span<const float> logits) const {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double Sampler::Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

int32_t Sampler::Sample(std::span<float> logits) {
  if (options_.repetition_penalty != 1.0f) {
    for (const int32_t id : seen_ids_) {
      float& x = logits[static_cast<size_t>(id)];
      x = x > 0.0f ? x / options_.repetition_penalty : x * options_.repetition_penalty;
    }
  }
  if (options_.temperature <= 0.0f) return Greedy(logits);

  // Candidates sorted by logit, best first, ties by id; only as many as top-k keeps.
  size_t n = candidates_.size();
  std::iota(candidates_.begin(), candidates_.end(), 0);
  const auto better = [&logits](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < n) n = static_cast<size_t>(options_.top_k);
  const auto middle = candidates_.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(candidates_.begin(), middle, candidates_.end(), better);

  const double best = logits[static_cast<size_t>(candidates_[0])];
  double total = 0.0;
  for (size_t i = 0; i < n; ++i) {
    weights_[i] = std::exp((logits[static_cast<size_t>(candidates_[i])] - best) / options_.temperature);
    total += weights_[i];
  }
  if (options_.top_p < 1.0f) {  // the smallest set whose probability reaches top_p, at least one token
    double sum = 0.0;
    size_t keep = 0;
    while (keep < n && sum < options_.top_p * total) sum += weights_[keep++];
    n = std::max<size_t>(keep, 1);
  }
  if (options_.min_p > 0.0f) {
    while (n > 1 && weights_[n - 1] < options_.min_p * weights_[0]) --n;
  }
  total = std::accumulate(weights_.begin(), weights_.begin() + static_cast<std::ptrdiff_t>(n), 0.0);
  double r = Uniform() * total;
  for (size_t i = 0; i + 1 < n; ++i) {
    r -= weights_[i];
    if (r < 0.0) return candidates_[i];
  }
  return candidates_[n - 1];
}

}  // namespace minicpm
