// Within: the one way tests compare activations with a reference. Not for values that must be equal.
// max|actual - expected| <= r * max|expected| and cosine(actual, expected) >= 1 - r.
#pragma once

#include <span>

#include "gtest/gtest.h"

namespace minicpm::test {

// Fails also on NaN, on different lengths and when there is nothing to compare. The message holds the figures.
testing::AssertionResult Within(std::span<const float> expected, std::span<const float> actual, double r);
testing::AssertionResult Within(std::span<const double> expected, std::span<const float> actual, double r);

// The two measures, in double.
struct Closeness {
  double max_difference = 0;  // max|actual - expected|; NaN when any value is NaN
  double max_expected = 0;    // max|expected|
  double cosine = 0;          // 1 when both are all zero, 0 when only one is
  size_t worst = 0;           // where max_difference is, or the first NaN
};
// Requires: same lengths.
template <class T>
Closeness Compare(std::span<const T> expected, std::span<const float> actual);
extern template Closeness Compare(std::span<const float>, std::span<const float>);
extern template Closeness Compare(std::span<const double>, std::span<const float>);

}  // namespace minicpm::test
