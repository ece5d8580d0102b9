// AVX2 and F16C form of convert.h.
#include "kernels/convert/convert.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

template <class Format>
void ToF32(const uint16_t* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) Store(dst + i, Format::Get(src + i));
  if (i < n) StoreFirst(dst + i, n - i, Format::GetFirst(src + i, n - i));
}

void ToF16(const float* src, int64_t n, uint16_t* dst) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), _mm256_cvtps_ph(Load(src + i), _MM_FROUND_TO_NEAREST_INT));
  }
  if (i < n) {
    alignas(16) uint16_t lanes[8];
    const __m128i tail = _mm256_cvtps_ph(LoadFirst(src + i, n - i), _MM_FROUND_TO_NEAREST_INT);
    _mm_store_si128(reinterpret_cast<__m128i*>(lanes), tail);
    for (int64_t l = 0; i + l < n; ++l) dst[i + l] = lanes[l];
  }
}

}  // namespace

extern const ConvertKernels avx2_convert = {ToF32<LoadBf16>, ToF32<LoadF16>, ToF16};

}  // namespace minicpm::kernels
