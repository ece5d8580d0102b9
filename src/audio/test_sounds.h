// The committed sounds and expected values of tests/data/audio, and the drawn noise. For tests only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/safetensors.h"

namespace minicpm {

inline std::string TestSoundPath(const std::string& file) { return MINICPM_SOURCE_DIR "/tests/data/audio/" + file; }

inline std::vector<std::byte> ReadTestSound(const std::string& file) {
  std::ifstream stream(TestSoundPath(file), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

// 16 bits of a hash of the place, as a number in [-0.5, 0.5); reference/make_test_sounds.py draws the same.
inline std::vector<float> TestNoise(int64_t n) {
  std::vector<float> samples(n);
  for (int64_t i = 0; i < n; ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    samples[i] = (static_cast<float>(x >> 16) - 32768) / 65536;
  }
  return samples;
}

// `samples` again and again, to `n` of them.
inline std::vector<float> Tiled(std::span<const float> samples, int64_t n) {
  std::vector<float> out(n);
  for (int64_t i = 0; i < n; ++i) out[i] = samples[i % samples.size()];
  return out;
}

// Tensors of one of the files with expected values.
class Expected {
 public:
  explicit Expected(const std::string& file) : file_(SafetensorsFile::Open(TestSoundPath(file)).value()) {
    for (const SafetensorsFile::Entry& entry : file_.entries()) views_[entry.name] = entry.view;
  }

  const std::map<std::string, TensorView>& views() const { return views_; }
  std::span<const float> Floats(const std::string& name) const { return Span<float>(name); }
  std::span<const int32_t> Ints(const std::string& name) const { return Span<int32_t>(name); }

  // The largest |difference| between the stored rows of `name` and those of `actual`; huge when shapes differ.
  double MaxDifference(const std::string& name, ConstMatrix actual) const {
    const auto shape = Ints(name + "#shape");
    if (actual.rows != shape[0] || actual.cols != shape[1]) return 1e30;
    const auto rows = Ints(name + "#rows");
    const auto expected = Floats(name);
    double largest = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int64_t m = 0; m < actual.cols; ++m) {
        const double difference = std::abs(static_cast<double>(expected[r * actual.cols + m]) - actual.row(rows[r])[m]);
        if (!(difference <= largest)) largest = difference;
      }
    }
    return largest;
  }

 private:
  template <class T>
  std::span<const T> Span(const std::string& name) const {
    const TensorView& view = views_.at(name);
    return {view.as<T>(), static_cast<size_t>(view.shape.elements())};
  }

  SafetensorsFile file_;
  std::map<std::string, TensorView> views_;
};

}  // namespace minicpm
