// c[m][n] = sum over k of x[m][k] * w[n][k]: float activations, weights in float32, bfloat16 or float16 as they lie in
// a file.
//
// Order of summation, the same in every function of one instruction set, so that a row's result depends neither on M
// nor on how the work was cut:
//   k is cut into sections (matmul_plan.h); inside a section, lane l of kLanes adds the products with k = l, l + 8, l +
//   16, ... in ascending order, starting from 0; lanes are then added to the total in ascending order, section after
//   section.
// So a GEMV keeps 8 sums in one register and reads w along k, while a GEMM, handling one lane after the other, keeps
// one sum per output and needs no horizontal addition. A step is 8 values of k; the last step of a section is padded
// with zeros.
#pragma once

#include <cstdint>

namespace minicpm::kernels {

inline constexpr int kLanes = 8;
inline constexpr int kMaxDotRows = 4;

// The kernels for one storage format of w. Strides are in elements; w may be aligned to the element only.
struct WeightKernels {
  // GEMV and small M. out[m * out_stride + n] = total of x row m and w row n, for m < m_rows <= kMaxDotRows, n <
  // n_rows. Sections are `section` long (a multiple of 8), the last one may be shorter.
  void (*dot)(const float* x, int64_t x_stride, int m_rows, const void* w, int64_t w_stride, int64_t n_rows, int64_t k,
              int64_t section, float* out, int64_t out_stride);
  // One section of n rows of w as float32, in panels of panel_width rows each:
  // panel[r / panel_width * panel_stride + lane * lane_stride + i * panel_width + r % panel_width] = w[r][8 i + lane],
  // i < steps; zero where r >= n (in the last panel) or 8 i + lane >= len. panel is 64-byte aligned, both strides are
  // multiples of 16; lane_stride is an odd one, or lanes would compete for the same lines of the cache.
  void (*pack_rows)(const void* w, int64_t w_stride, int64_t n, int64_t len, int64_t steps, float* panel,
                    int64_t lane_stride, int64_t panel_stride);
  // The same from a matrix stored [K, N]: w[8 i + lane][r].
  void (*pack_columns)(const void* w, int64_t w_stride, int64_t n, int64_t len, int64_t steps, float* panel,
                       int64_t lane_stride, int64_t panel_stride);
};

struct MatmulKernels {
  int panel_width;  // columns of c that one panel serves
  int tile_rows;    // rows of x that are laid out side by side
  WeightKernels f32;
  WeightKernels bf16;
  WeightKernels f16;
  // One section of `rows` <= tile_rows rows of x: out[lane * lane_stride + i * tile_rows + r] = x[r][8 i + lane], i <
  // steps; zero where r >= rows or 8 i + lane >= len.
  void (*pack_x)(const float* x, int64_t x_stride, int rows, int64_t len, int64_t steps, float* out,
                 int64_t lane_stride);
  // One lane of one section, m_rows rows packed tile after tile: s[m][n] = sum over i < steps of x[m][i] * panel[i][n],
  // then c[m * panel_width + n] = first ? s : c + s, for m < m_rows, n < panel_width. panel and c are 64-byte aligned.
  void (*tile)(const float* x, int64_t steps, int64_t m_rows, const float* panel, bool first, float* c);
  // y[m][n] = c[m][n] (add: y + c), n < cols.
  void (*store)(const float* c, int64_t c_stride, int64_t m_rows, int64_t cols, bool add, float* y, int64_t y_stride);
  // c[m][n] += bias[n], n < cols.
  void (*add_bias)(const float* bias, int64_t m_rows, int64_t cols, float* c, int64_t c_stride);
};

#define MINICPM_ISA(name) extern const MatmulKernels name##_matmul;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
