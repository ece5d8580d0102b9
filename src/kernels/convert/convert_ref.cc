// Scalar truth of convert.h.
#include "base/half.h"
#include "kernels/convert/convert.h"

namespace minicpm::kernels {
namespace {

void Bf16ToF32Row(const uint16_t* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = Bf16ToF32(src[i]);
}

void F16ToF32Row(const uint16_t* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = F16ToF32(src[i]);
}

void F32ToF16Row(const float* src, int64_t n, uint16_t* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = F32ToF16(src[i]);
}

}  // namespace

extern const ConvertKernels scalar_convert = {Bf16ToF32Row, F16ToF32Row, F32ToF16Row};

}  // namespace minicpm::kernels
