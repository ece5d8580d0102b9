// How K is cut into sections: part of the summation order of matmul.h, so the same for every caller and thread count.
// Not for instruction-set files: they take the section length as an argument.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/matmul/matmul.h"

namespace minicpm::kernels {

// Longer sections would push a panel out of the first-level cache: 2048 / 8 lanes * 16 columns * 4 bytes = 16 KiB.
inline constexpr int64_t kMaxSection = 2048;

struct SectionPlan {
  int64_t k = 0;
  int64_t section = 0;  // length of every section but the last; a multiple of kLanes
  int64_t count = 0;

  explicit SectionPlan(int64_t inner) : k(inner) {
    count = std::max<int64_t>((inner + kMaxSection - 1) / kMaxSection, 1);
    const int64_t even = (inner + count - 1) / count;
    section = std::max<int64_t>((even + kLanes - 1) / kLanes * kLanes, kLanes);
    count = std::max<int64_t>((inner + section - 1) / section, 1);
  }
  int64_t begin(int64_t s) const { return s * section; }
  int64_t len(int64_t s) const { return std::min(section, k - begin(s)); }
  int64_t steps(int64_t s) const { return (len(s) + kLanes - 1) / kLanes; }
  // Floats of one row of x packed over all sections.
  int64_t padded() const { return (count - 1) * section + steps(count - 1) * kLanes; }
};

}  // namespace minicpm::kernels
