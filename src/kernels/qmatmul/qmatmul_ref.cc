// Scalar truth of qmatmul.h: 32-bit sums, nothing that could saturate. A block of weights is decoded to 16-bit integers
// once and then meets every row of x, so that the baseline's multiply-add of 16-bit numbers does the work.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/qmatmul/qmatmul.h"
#include "quant/packed.h"

namespace minicpm::kernels {
namespace {

static_assert(kPanelRows == quant::kPanelRows);
static_assert(kInt8Activation.zero_point == quant::kInt8Zero && kInt8Activation.run == quant::kInt8Columns);
static_assert(kInt4Activation.zero_point == quant::kInt4Zero && kInt4Activation.run == quant::kInt4Group);
static_assert(kInt8Activation.block % kInt8Activation.run == 0 && kUnpackColumns % kInt8Activation.block == 0);
static_assert(kInt4Activation.block % quant::kInt4Columns == 0 && kUnpackColumns % kInt4Activation.block == 0);

struct Int8 {
  static constexpr ActivationFormat kFormat = kInt8Activation;

  // w[r][i] = the integer of row r, column first + i, i < n.
  static void Decode(const std::byte* panel, int64_t first, int64_t n, int16_t (*w)[kFormat.block]) {
    const auto* q = reinterpret_cast<const uint8_t*>(panel + quant::kPanelHeaderBytes) + first * kPanelRows;
    for (int64_t i = 0; i < n; i += 4, q += 64) {
      for (int r = 0; r < kPanelRows; ++r) {
        for (int c = 0; c < 4; ++c) w[r][i + c] = static_cast<int16_t>(q[4 * r + c] - quant::kInt8Zero);
      }
    }
  }
};

struct Int4 {
  static constexpr ActivationFormat kFormat = kInt4Activation;

  static void Decode(const std::byte* panel, int64_t first, int64_t n, int16_t (*w)[kFormat.block]) {
    for (int64_t i = 0; i < n; i += 8) {
      const int64_t k = first + i;
      const std::byte* const block =
          panel + quant::kPanelHeaderBytes + k / quant::kInt4Columns * quant::kInt4BlockBytes;
      const int64_t in_block = k % quant::kInt4Columns;
      const auto* t = reinterpret_cast<const int8_t*>(block) + in_block / quant::kInt4Group * kPanelRows;
      const auto* q = reinterpret_cast<const uint8_t*>(block) + 64 + in_block / 8 * 64;
      for (int r = 0; r < kPanelRows; ++r) {
        const int scale = t[quant::SubScaleSlot(r)];
        for (int c = 0; c < 4; ++c) {
          w[r][i + c] = static_cast<int16_t>(scale * ((q[4 * r + c] & 15) - quant::kInt4Zero));
          w[r][i + 4 + c] = static_cast<int16_t>(scale * ((q[4 * r + c] >> 4) - quant::kInt4Zero));
        }
      }
    }
  }
};

// Row scale 0 and NaN in `scale` need no special case: the sums are finite integers.
template <ActivationFormat kFormat>
void QuantizeBlock(const float* x, int64_t n, int8_t* q, float* scale) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  const float largest = std::bit_cast<float>(most);
  const float factor = 127.0f / largest;
  const bool finite = most < 0x7f800000u;
  if (!finite || factor > std::numeric_limits<float>::max()) {
    for (int64_t i = 0; i < n; ++i) q[i] = 0;
    *scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  *scale = largest / 127.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, to nearest even
  for (int64_t i = 0; i < n; ++i) q[i] = static_cast<int8_t>((x[i] * factor + kRound) - kRound);
}

template <ActivationFormat kFormat>
void Quantize(const float* x, int64_t k, int64_t padded_k, int8_t* q, int16_t* start, float* scale) {
  for (int64_t i = k; i < padded_k; ++i) q[i] = 0;
  for (int64_t first = 0; first < padded_k; first += kFormat.block) {
    const int64_t left = k > first ? k - first : 0;
    QuantizeBlock<kFormat>(x + first, left < kFormat.block ? left : kFormat.block, q + first, scale++);
  }
  for (int64_t first = 0; first < padded_k; first += kFormat.run) {
    int32_t sum[2] = {};
    for (int64_t i = 0; i < kFormat.run; ++i) sum[i / 2 % 2] += q[first + i];
    for (const int32_t s : sum) *start++ = static_cast<int16_t>(static_cast<uint32_t>(-kFormat.zero_point * s));
  }
}

// c[m * c_stride + r], one panel.
template <class Weights>
void Panel(const QuantizedRows& x, int64_t m_rows, const std::byte* panel, int64_t padded_k, float* c,
           int64_t c_stride) {
  constexpr int64_t kBlock = Weights::kFormat.block;
  alignas(64) int16_t w[kPanelRows][kBlock];
  alignas(64) int16_t row[kBlock];
  for (int64_t m = 0; m < m_rows; ++m) {
    for (int64_t r = 0; r < kPanelRows; ++r) c[m * c_stride + r] = 0;
  }
  for (int64_t first = 0; first < padded_k; first += kBlock) {
    const int64_t n = padded_k - first < kBlock ? padded_k - first : kBlock;
    Weights::Decode(panel, first, n, w);
    for (int64_t m = 0; m < m_rows; ++m) {
      const int8_t* const q = x.q + m * x.q_stride + first;
      for (int64_t i = 0; i < n; ++i) row[i] = q[i];
      const float scale = x.scale[m * x.scale_stride + first / kBlock];
      for (int64_t r = 0; r < kPanelRows; ++r) {
        int32_t sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += row[i] * w[r][i];
        float& out = c[m * c_stride + r];
        out = std::fma(static_cast<float>(sum), scale, out);
      }
    }
  }
  const auto* row_scale = reinterpret_cast<const float*>(panel);
  for (int64_t m = 0; m < m_rows; ++m) {
    for (int64_t r = 0; r < kPanelRows; ++r) c[m * c_stride + r] *= row_scale[r];
  }
}

template <class Weights>
void Few(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
         int64_t padded_k, float* c, int64_t c_stride) {
  for (int64_t p = 0; p < n_panels; ++p) {
    Panel<Weights>(x, m_rows, panels + p * panel_bytes, padded_k, c + p * kPanelRows, c_stride);
  }
}

template <class Weights>
void Many(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
          int64_t padded_k, float* c, int64_t c_stride, std::byte*) {
  Few<Weights>(x, m_rows, panels, panel_bytes, n_panels, padded_k, c, c_stride);
}

template <class Weights>
constexpr PackedMatmulKernels kKernels = {Quantize<Weights::kFormat>, Few<Weights>, Many<Weights>};

}  // namespace

extern const QMatmulKernels scalar_qmatmul = {1, 64, kKernels<Int8>, kKernels<Int4>};

}  // namespace minicpm::kernels
