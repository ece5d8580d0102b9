// Recorder: a Tap that keeps what it hears under the names of the dumps, and the comparison with a dump.
// For golden tests only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/tap.h"
#include "tests/golden/golden_case.h"
#include "tests/support/compare.h"

namespace minicpm::test {

// "vit.layer.2@3", as the dumps spell it.
inline std::string KeyOf(const Stage& stage) {
  std::string key = stage.name;
  if (stage.layer >= 0) key += "." + std::to_string(stage.layer);
  if (stage.item >= 0) key += "@" + std::to_string(stage.item);
  return key;
}

class Recorder : public Tap {
 public:
  void OnStage(const Stage& stage, ConstMatrix value) override {
    std::vector<float>& kept = values_[KeyOf(stage)];
    for (int64_t r = 0; r < value.rows; ++r) kept.insert(kept.end(), value.row(r), value.row(r) + value.cols);
  }
  const std::vector<float>* Find(const std::string& key) const {
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : &it->second;
  }
  const std::map<std::string, std::vector<float>>& values() const { return values_; }

 private:
  std::map<std::string, std::vector<float>> values_;
};

// The rows that the dump kept, out of a recorded stage; empty when there are too few.
inline std::vector<float> Pick(const std::vector<float>& all, int64_t cols, const std::vector<int64_t>& rows) {
  std::vector<float> picked;
  for (const int64_t r : rows) {
    const auto begin = all.begin() + r * cols;
    if ((r + 1) * cols > static_cast<int64_t>(all.size())) return {};
    picked.insert(picked.end(), begin, begin + cols);
  }
  return picked;
}

// Every stage of the dump whose key begins with `prefix` was heard and is within `tolerance`. Returns how many.
inline int CompareStages(const GoldenStages& stages, const Recorder& recorder, double tolerance,
                         const std::string& prefix = "") {
  int compared = 0;
  for (const std::string& key : stages.keys()) {
    if (key.starts_with("view.") || !key.starts_with(prefix)) continue;  // preprocessing has its own test
    const TensorView expected = stages.Values(key);
    const std::vector<float>* all = recorder.Find(key);
    if (all == nullptr) {
      ADD_FAILURE() << key << " was never reported";
      continue;
    }
    const std::vector<float> actual = Pick(*all, expected.shape[1], stages.Rows(key));
    const std::span<const float> wanted(expected.as<float>(), static_cast<size_t>(expected.shape.elements()));
    EXPECT_TRUE(Within(wanted, actual, tolerance)) << key;
    ++compared;
  }
  return compared;
}

}  // namespace minicpm::test
