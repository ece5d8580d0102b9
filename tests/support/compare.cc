// Implementation of compare.h.
#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>

namespace minicpm::test {

template <class T>
Closeness Compare(std::span<const T> expected, std::span<const float> actual) {
  Closeness c;
  double dot = 0;
  double norm_expected = 0;
  double norm_actual = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i];
    const double a = actual[i];
    const double difference = std::abs(a - e);
    if (std::isnan(difference)) {
      return {.max_difference = difference, .max_expected = c.max_expected, .cosine = difference, .worst = i};
    }
    if (difference > c.max_difference) {
      c.max_difference = difference;
      c.worst = i;
    }
    c.max_expected = std::max(c.max_expected, std::abs(e));
    dot += e * a;
    norm_expected += e * e;
    norm_actual += a * a;
  }
  if (norm_expected == 0 || norm_actual == 0) {
    c.cosine = norm_expected == norm_actual ? 1 : 0;
  } else {
    c.cosine = dot / std::sqrt(norm_expected * norm_actual);  // exactly 1 for equal vectors
  }
  return c;
}
template Closeness Compare(std::span<const float>, std::span<const float>);
template Closeness Compare(std::span<const double>, std::span<const float>);

namespace {

template <class T>
testing::AssertionResult Judge(std::span<const T> expected, std::span<const float> actual, double r) {
  if (expected.size() != actual.size()) {
    return testing::AssertionFailure() << "expected " << expected.size() << " values, found " << actual.size();
  }
  if (expected.empty()) return testing::AssertionFailure() << "nothing to compare";
  const Closeness c = Compare<T>(expected, actual);
  // Written so that NaN fails.
  const bool good = c.max_difference <= r * c.max_expected && c.cosine >= 1 - r;
  return (good ? testing::AssertionSuccess() : testing::AssertionFailure())
         << "max difference " << c.max_difference << " at " << c.worst << " (expected " << expected[c.worst]
         << ", found " << actual[c.worst] << ") is " << c.max_difference / c.max_expected
         << " of max|expected| = " << c.max_expected << ", 1 - cosine = " << 1 - c.cosine << "; allowed are " << r
         << " and " << r;
}

}  // namespace

testing::AssertionResult Within(std::span<const float> expected, std::span<const float> actual, double r) {
  return Judge(expected, actual, r);
}
testing::AssertionResult Within(std::span<const double> expected, std::span<const float> actual, double r) {
  return Judge(expected, actual, r);
}

}  // namespace minicpm::test
