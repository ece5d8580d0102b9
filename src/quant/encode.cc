// Encoding of packed.h: the search for scales, rounding, and the promise that 16-bit sums hold. One panel at a time;
// sums run in a fixed order, so the bytes depend on the weights only. Inner loops over 8 neighbours let the compiler
// use the baseline's vectors.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "quant/check_finite.h"
#include "quant/packed.h"

namespace minicpm::quant {
namespace {

constexpr int kSums = 8;  // partial sums that do not wait for each other
// Above this, squares of weights might overflow: scales then come from the largest weight alone.
constexpr float kHuge = 1e15f;
constexpr float kTiny = 1e-30f;  // a scale below this would make 1 / scale infinite: such weights count as zero

// To the nearest integer, ties to even; exact for |x| < 2^22.
inline float Nearest(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return (x + kShift) - kShift;
}

inline float Clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

float LargestOf(const float* x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i]));
  return most;
}

// What rounding n weights (a multiple of 8) with one scale costs, and the scale that fits the rounded values best.
struct Fit {
  float error;
  float best_scale;
};
Fit TryScale(const float* x, int64_t n, float scale, float low, float high) {
  const float inverse = 1.0f / scale;
  float error[kSums] = {};
  float xq[kSums] = {};
  float qq[kSums] = {};
  for (int64_t i = 0; i < n; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const float q = Clamp(Nearest(Clamp(x[i + j] * inverse, -1e6f, 1e6f)), low, high);
      const float d = x[i + j] - scale * q;
      error[j] += d * d;
      xq[j] += x[i + j] * q;
      qq[j] += q * q;
    }
  }
  float e = 0, a = 0, b = 0;
  for (int j = 0; j < kSums; ++j) {
    e += error[j];
    a += xq[j];
    b += qq[j];
  }
  return {e, b > 0 ? a / b : scale};
}

// The best of `scales`, then twice the least-squares scale of what it rounds to.
template <size_t kCount>
float SearchScale(const float* x, int64_t n, const std::array<float, kCount>& scales, float low, float high) {
  float best = scales[0];
  Fit fit = TryScale(x, n, best, low, high);
  for (size_t i = 1; i < kCount; ++i) {
    const Fit other = TryScale(x, n, scales[i], low, high);
    if (other.error < fit.error) {
      fit = other;
      best = scales[i];
    }
  }
  for (int turn = 0; turn < 2; ++turn) {
    const float refined = fit.best_scale;
    if (!(std::fabs(refined) >= kTiny) || refined == best) break;
    const Fit other = TryScale(x, n, refined, low, high);
    if (!(other.error < fit.error)) break;
    fit = other;
    best = refined;
  }
  return best;
}

void AddStats(const float* x, const float* decoded, int64_t k, EncodeStats& stats) {
  for (int64_t i = 0; i < k; ++i) {
    const double w = x[i];
    const double d = w - static_cast<double>(decoded[i]);
    stats.error += d * d;
    stats.energy += w * w;
  }
}

// Takes steps off the largest weights of a half-lane until its sum fits. q: 16 columns of one row.
bool LimitHalfLane(int* q, int half) {
  int columns[8];
  int sum = 0;
  for (int i = 0; i < 8; ++i) {
    columns[i] = i / 2 * 4 + half + i % 2;
    sum += std::abs(q[columns[i]]);
  }
  if (sum <= kInt8LaneLimit) return false;
  for (; sum > kInt8LaneLimit; --sum) {
    int* largest = &q[columns[0]];
    for (const int c : columns) {
      if (std::abs(q[c]) > std::abs(*largest)) largest = &q[c];
    }
    *largest += *largest > 0 ? -1 : 1;
  }
  return true;
}

// 16 columns of a row: rounded, then within the promise. Returns the number of half-lanes that had to give.
int RoundRun(const float* x, float inverse, int* q) {
  for (int j = 0; j < kInt8Columns; ++j) {
    q[j] = static_cast<int>(Clamp(Nearest(x[j] * inverse), -kInt8Most, kInt8Most));
  }
  return (LimitHalfLane(q, 0) ? 1 : 0) + (LimitHalfLane(q, 2) ? 1 : 0);
}

// What a scale costs with the promise kept.
struct RowCost {
  double error = 0;
  int64_t n_limited = 0;
};
RowCost CostOfScale(const float* x, int64_t padded, float scale) {
  RowCost cost;
  const float inverse = 1.0f / scale;
  for (int64_t i = 0; i < padded; i += kInt8Columns) {
    int q[kInt8Columns];
    cost.n_limited += RoundRun(x + i, inverse, q);
    for (int j = 0; j < kInt8Columns; ++j) {
      const double d = static_cast<double>(x[i + j]) - static_cast<double>(scale) * q[j];
      cost.error += d * d;
    }
  }
  return cost;
}

// Rows that fill their range evenly would lose much to the promise: a coarser scale may cost less.
float ScaleWithinPromise(const float* x, int64_t padded, float scale) {
  RowCost best = CostOfScale(x, padded, scale);
  float chosen = scale;
  for (float factor = 1.1f; factor < 2.1f && best.n_limited > 0; factor += 0.1f) {
    const RowCost cost = CostOfScale(x, padded, scale * factor);
    if (cost.error < best.error) {
      best = cost;
      chosen = scale * factor;
    }
    if (cost.n_limited == 0) break;
  }
  return chosen;
}

// x [padded], zero past k.
void EncodeInt8Row(const float* x, int64_t k, int64_t padded, Search search, int row, uint8_t* panel,
                   EncodeStats& stats) {
  const float largest = LargestOf(x, k);
  float scale = largest / static_cast<float>(kInt8Most);
  if (scale < kTiny) {
    scale = 0;
  } else if (search == Search::kLeastSquares && largest < kHuge) {
    const auto most = static_cast<float>(kInt8Most);
    const std::array<float, 5> tries = {scale, scale * 0.95f, scale * 0.9f, scale * 0.85f, scale * 0.8f};
    scale = ScaleWithinPromise(x, padded, SearchScale(x, padded, tries, -most, most));
  }
  std::memcpy(panel + 4 * row, &scale, sizeof scale);
  const float inverse = scale == 0 ? 0.0f : 1.0f / scale;
  uint8_t* out = panel + kPanelHeaderBytes + 4 * row;
  for (int64_t i = 0; i < padded; i += kInt8Columns) {
    int q[kInt8Columns];
    float decoded[kInt8Columns];
    stats.n_limited += RoundRun(x + i, inverse, q);
    for (int j = 0; j < kInt8Columns; ++j) {
      out[(i / 4 + j / 4) * 4 * kPanelRows + j % 4] = static_cast<uint8_t>(q[j] + kInt8Zero);
      decoded[j] = scale * static_cast<float>(q[j]);
    }
    AddStats(x + i, decoded, std::min(kInt8Columns, k - i), stats);
  }
}

// Scale of a group, signed: negative where the largest weight is better met by -8 than by +7.
float Int4Scale(const float* x, Search search) {
  float most = x[0];
  for (int j = 1; j < kInt4Group; ++j) {
    if (std::fabs(x[j]) > std::fabs(most)) most = x[j];
  }
  if (std::fabs(most) < 8 * kTiny) return 0;
  if (search == Search::kNearest || std::fabs(most) >= kHuge) return std::fabs(most) / 7.0f;
  // The largest weight at -8.6 (clipped) to -5.6, and at +7.4 to +5.5.
  const std::array<float, 11> tries = {most / -8.0f, most / -8.6f, most / -7.4f, most / -6.8f,
                                       most / -6.2f, most / -5.6f, most / 7.0f,  most / 7.4f,
                                       most / 6.5f,  most / 6.0f,  most / 5.5f};
  return SearchScale(x, kInt4Group, tries, -8.0f, 7.0f);
}

void EncodeInt4Row(const float* x, int64_t k, int64_t padded, Search search, int row, uint8_t* panel,
                   EncodeStats& stats) {
  std::vector<float> scales(static_cast<size_t>(padded / kInt4Group));
  for (size_t g = 0; g < scales.size(); ++g) scales[g] = Int4Scale(x + static_cast<int64_t>(g) * kInt4Group, search);
  const float row_scale = LargestOf(scales.data(), static_cast<int64_t>(scales.size())) / 127.0f;
  std::memcpy(panel + 4 * row, &row_scale, sizeof row_scale);
  uint8_t* block = panel + kPanelHeaderBytes;
  for (int64_t i = 0; i < padded; i += kInt4Columns, block += kInt4BlockBytes) {
    for (int64_t g = 0; g < kInt4Columns / kInt4Group; ++g) {
      const int64_t first = i + g * kInt4Group;
      const float wanted = scales[static_cast<size_t>(first / kInt4Group)];
      const int t = row_scale == 0 ? 0 : static_cast<int>(Clamp(Nearest(wanted / row_scale), -127, 127));
      block[g * kPanelRows + SubScaleSlot(row)] = static_cast<uint8_t>(t);
      const float scale = row_scale * static_cast<float>(t);
      const float inverse = std::fabs(scale) < kTiny ? 0.0f : 1.0f / scale;
      uint8_t q[kInt4Group];
      float decoded[kInt4Group];
      for (int j = 0; j < kInt4Group; ++j) {
        const float n = Clamp(Nearest(Clamp(x[first + j] * inverse, -1e6f, 1e6f)), -8, 7);
        q[j] = static_cast<uint8_t>(static_cast<int>(n) + kInt4Zero);
        decoded[j] = scale * n;
      }
      for (int j = 0; j < kInt4Group; j += 8) {
        uint8_t* const out = block + 64 + (g * kInt4Group + j) / 8 * 64 + 4 * row;
        for (int c = 0; c < 4; ++c) out[c] = static_cast<uint8_t>(q[j + c] | q[j + 4 + c] << 4);
      }
      if (first < k) AddStats(x + first, decoded, std::min(kInt4Group, k - first), stats);
    }
  }
}

}  // namespace

Status EncodePanel(DType dtype, const float* w, int64_t w_stride, int64_t rows, int64_t k, Search search,
                   std::byte* panel, EncodeStats& stats) {
  MINICPM_CHECK(rows >= 1 && rows <= kPanelRows && k >= 1);
  const int64_t padded = PaddedColumns(dtype, k);
  std::vector<float> x(static_cast<size_t>(padded), 0.0f);
  auto* const out = reinterpret_cast<uint8_t*>(panel);
  for (int row = 0; row < kPanelRows; ++row) {
    if (row < rows) {
      const float* const from = w + row * w_stride;
      MINICPM_TRY(CheckFinite(from, k, row));
      std::copy(from, from + k, x.begin());
    } else {
      std::fill(x.begin(), x.end(), 0.0f);
    }
    if (dtype == DType::kInt8Packed) {
      EncodeInt8Row(x.data(), k, padded, search, row, out, stats);
    } else {
      EncodeInt4Row(x.data(), k, padded, search, row, out, stats);
    }
  }
  return {};
}

}  // namespace minicpm::quant
