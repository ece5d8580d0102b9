// AVX2 form of qmatmul.h.
#include "kernels/qmatmul/qmatmul.h"

namespace minicpm::kernels {
namespace {

void Quantize8(const float* x, int64_t k, int64_t padded_k, int8_t* q, int16_t* start, float* scale) {
  scalar_qmatmul.int8.quantize(x, k, padded_k, q, start, scale);
}
void Few8(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
          int64_t padded_k, float* c, int64_t c_stride) {
  scalar_qmatmul.int8.few(x, m_rows, panels, panel_bytes, n_panels, padded_k, c, c_stride);
}
void Many8(const QuantizedRows& x, int64_t m_rows, const std::byte* panel, int64_t padded_k, float* c,
           std::byte* scratch) {
  scalar_qmatmul.int8.many(x, m_rows, panel, padded_k, c, scratch);
}
void Quantize4(const float* x, int64_t k, int64_t padded_k, int8_t* q, int16_t* start, float* scale) {
  scalar_qmatmul.int4.quantize(x, k, padded_k, q, start, scale);
}
void Few4(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
          int64_t padded_k, float* c, int64_t c_stride) {
  scalar_qmatmul.int4.few(x, m_rows, panels, panel_bytes, n_panels, padded_k, c, c_stride);
}
void Many4(const QuantizedRows& x, int64_t m_rows, const std::byte* panel, int64_t padded_k, float* c,
           std::byte* scratch) {
  scalar_qmatmul.int4.many(x, m_rows, panel, padded_k, c, scratch);
}

}  // namespace

extern const QMatmulKernels avx2_qmatmul = {12, 16384, {Quantize8, Few8, Many8}, {Quantize4, Few4, Many4}};

}  // namespace minicpm::kernels
