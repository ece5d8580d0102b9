// Scalar truth of matmul.h, in the order of summation written there; multiply and add round separately. Inner loops
// over 8 or 16 neighbours let the compiler use the baseline's vectors.
#include "base/half.h"
#include "kernels/matmul/matmul.h"

namespace minicpm::kernels {
namespace {

constexpr int kPanel = 16;
constexpr int kTileRows = 4;

struct F32 {
  using Type = float;
  static float Load(float v) { return v; }
};
struct Bf16 {
  using Type = uint16_t;
  static float Load(uint16_t v) { return Bf16ToF32(v); }
};
struct F16 {
  using Type = uint16_t;
  static float Load(uint16_t v) { return F16ToF32(v); }
};

template <class W>
float DotOne(const float* x, const typename W::Type* w, int64_t k, int64_t section) {
  float total = 0;
  for (int64_t begin = 0; begin < k; begin += section) {
    const int64_t len = k - begin < section ? k - begin : section;
    float sum[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= len; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) sum[l] += x[begin + i + l] * W::Load(w[begin + i + l]);
    }
    for (int l = 0; i + l < len; ++l) sum[l] += x[begin + i + l] * W::Load(w[begin + i + l]);
    for (int l = 0; l < kLanes; ++l) total = begin == 0 && l == 0 ? sum[0] : total + sum[l];
  }
  return total;
}

template <class W>
void Dot(const float* x, int64_t x_stride, int m_rows, const void* w, int64_t w_stride, int64_t n_rows, int64_t k,
         int64_t section, float* out, int64_t out_stride) {
  const auto* rows = static_cast<const typename W::Type*>(w);
  for (int64_t n = 0; n < n_rows; ++n) {
    for (int m = 0; m < m_rows; ++m) {
      out[m * out_stride + n] = DotOne<W>(x + m * x_stride, rows + n * w_stride, k, section);
    }
  }
}

// Both packings: `at` gives w's element r of inner index k.
template <class W, class At>
void Pack(At at, int64_t n, int64_t len, int64_t steps, float* panel, int64_t lane_stride, int64_t panel_stride) {
  for (int64_t first = 0; first < n; first += kPanel, panel += panel_stride) {
    for (int64_t k = 0; k < steps * kLanes; ++k) {
      float* out = panel + k % kLanes * lane_stride + k / kLanes * kPanel;
      for (int64_t r = first; r < first + kPanel; ++r) *out++ = r < n && k < len ? W::Load(at(r, k)) : 0.0f;
    }
  }
}

template <class W>
void PackRows(const void* w, int64_t w_stride, int64_t n, int64_t len, int64_t steps, float* panel, int64_t lane_stride,
              int64_t panel_stride) {
  const auto* data = static_cast<const typename W::Type*>(w);
  Pack<W>([=](int64_t r, int64_t k) { return data[r * w_stride + k]; }, n, len, steps, panel, lane_stride,
          panel_stride);
}

template <class W>
void PackColumns(const void* w, int64_t w_stride, int64_t n, int64_t len, int64_t steps, float* panel,
                 int64_t lane_stride, int64_t panel_stride) {
  const auto* data = static_cast<const typename W::Type*>(w);
  Pack<W>([=](int64_t r, int64_t k) { return data[k * w_stride + r]; }, n, len, steps, panel, lane_stride,
          panel_stride);
}

void PackX(const float* x, int64_t x_stride, int rows, int64_t len, int64_t steps, float* out, int64_t lane_stride) {
  for (int l = 0; l < kLanes; ++l) {
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t k = i * kLanes + l;
      for (int r = 0; r < kTileRows; ++r) {
        out[l * lane_stride + i * kTileRows + r] = r < rows && k < len ? x[r * x_stride + k] : 0.0f;
      }
    }
  }
}

void Tile(const float* x, int64_t steps, int64_t m_rows, const float* panel, bool first, float* c) {
  for (int64_t m = 0; m < m_rows; ++m) {
    const float* row = x + m / kTileRows * kTileRows * steps + m % kTileRows;
    float sum[kPanel] = {};
    for (int64_t i = 0; i < steps; ++i) {
      const float v = row[i * kTileRows];
      for (int n = 0; n < kPanel; ++n) sum[n] += v * panel[i * kPanel + n];
    }
    float* out = c + m * kPanel;
    for (int n = 0; n < kPanel; ++n) out[n] = first ? sum[n] : out[n] + sum[n];
  }
}

void Store(const float* c, int64_t c_stride, int64_t m_rows, int64_t cols, bool add, float* y, int64_t y_stride) {
  for (int64_t m = 0; m < m_rows; ++m) {
    for (int64_t n = 0; n < cols; ++n) {
      const float v = c[m * c_stride + n];
      y[m * y_stride + n] = add ? y[m * y_stride + n] + v : v;
    }
  }
}

void AddBias(const float* bias, int64_t m_rows, int64_t cols, float* c, int64_t c_stride) {
  for (int64_t m = 0; m < m_rows; ++m) {
    for (int64_t n = 0; n < cols; ++n) c[m * c_stride + n] += bias[n];
  }
}

template <class W>
constexpr WeightKernels kWeightKernels = {Dot<W>, PackRows<W>, PackColumns<W>};

}  // namespace

extern const MatmulKernels scalar_matmul = {
    kPanel, kTileRows, kWeightKernels<F32>, kWeightKernels<Bf16>, kWeightKernels<F16>, PackX, Tile, Store, AddBias};

}  // namespace minicpm::kernels
