// c[m][n] = row_scale[n] * sum over blocks b of x_scale[m][b] * sum over k in b of x[m][k] * w[n][k]: activations
// quantised to 8 bits per row and block of columns, weights packed as INT8 or INT4 (quant/packed.h).
//
// The inner sum is exact in integers; the outer one is acc = fma(float(sum_b), x_scale_b, acc), b ascending from acc =
// 0, and the result acc * row_scale. So all instruction sets, any M and any cut of the work give the same bits.
//
// 16-bit sums: kernels without 8-bit dot products multiply unsigned weights by signed activations (maddubs: pairs are
// at most 2 * 127 * 127 = 32258) and add `run` columns in 16 bits: even pairs (k % 4 < 2) and odd pairs (k % 4 >= 2)
// apart, beginning at `start` = - zero point * (sum of those activations), modulo 2^16. The final value is the centred
// sum, which fits by the promise of the packing, so nothing saturates and nothing is lost.
#pragma once

#include <cstddef>
#include <cstdint>

namespace minicpm::kernels {

inline constexpr int64_t kPanelRows = 16;  // rows of w in a panel (quant::kPanelRows)
inline constexpr int64_t kUnpackColumns = 1024;

// What a weight format asks of its activations.
struct ActivationFormat {
  int64_t run;         // columns summed in 16 bits: 16 (INT8), 32 (INT4)
  int64_t block;       // columns that share one activation scale, a multiple of run that divides kUnpackColumns
  int32_t zero_point;  // of the weights: 64, 8
};
// The same for every instruction set: they are part of the formula.
inline constexpr ActivationFormat kInt8Activation = {16, 256, 64};
inline constexpr ActivationFormat kInt4Activation = {32, 512, 8};

// Quantised rows. K is padded (with q = 0) to the weights' padded columns.
struct QuantizedRows {
  int8_t* q;  // [M, padded K], 64-byte aligned rows, -127..127
  // Best an odd multiple of 64: rows a multiple of 4 KiB apart compete for the same lines of the cache.
  int64_t q_stride;
  // [M, padded K / run, 2]: even pairs, odd pairs; a multiple of 4 bytes aligned. Instruction sets with 8-bit dot
  // products keep one int32 in the place of a pair: only the functions of the table that filled it may read it.
  int16_t* start;
  int64_t start_stride;
  float* scale;  // [M, ceil(padded K / block)]
  int64_t scale_stride;
};

struct PackedMatmulKernels {
  // One row x [k] f32 -> q, start, scale (rows of QuantizedRows). Per block: scale = largest |x| / 127, q = x * (127 /
  // largest), to nearest even; all zero when the largest is 0 (or so small that 127 / largest is infinite). When a
  // value is not finite, scale is NaN and q is 0: the outputs become NaN instead of plausible.
  void (*quantize)(const float* x, int64_t k, int64_t padded_k, int8_t* q, int16_t* start, float* scale);
  // c[m * c_stride + 16 p + r] for panels p < n_panels, m < m_rows. Few rows (any number; meant for up to
  // most_few_rows): streams the panels once from memory.
  void (*few)(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
              int64_t padded_k, float* c, int64_t c_stride);
  // The same for many rows. c: 64-byte aligned rows; scratch: scratch_bytes, 64-byte aligned. Some 8 panels at once are
  // better than one: they share the rows of x in the second-level cache.
  void (*many)(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
               int64_t padded_k, float* c, int64_t c_stride, std::byte* scratch);
};

struct QMatmulKernels {
  int64_t most_few_rows;  // up to this many rows `few` beats `many`
  int64_t scratch_bytes;
  PackedMatmulKernels int8;
  PackedMatmulKernels int4;
};

#define MINICPM_ISA(name) extern const QMatmulKernels name##_qmatmul;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
