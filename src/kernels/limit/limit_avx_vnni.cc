// AVX-VNNI form of limit.h. Never run: no CPU of the machines this was made on has the instruction.
#include "kernels/limit/limit_avx2.h"

namespace minicpm::kernels {
namespace {

inline void DotStep(__m256i& sum, __m256i u, __m256i s) {
  asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "x"(s));
}

int32_t IntegerMix(int64_t turns) {
  const __m256i u = _mm256_set1_epi8(5);
  const __m256i s = _mm256_set1_epi8(-3);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;
  for (; turns > 0; --turns) {
    DotStep(a, u, s);
    DotStep(b, u, s);
    DotStep(c, u, s);
    DotStep(d, u, s);
    DotStep(e, u, s);
    DotStep(f, u, s);
    DotStep(g, u, s);
    DotStep(h, u, s);
    DotStep(i, u, s);
    DotStep(j, u, s);
    DotStep(k, u, s);
    DotStep(l, u, s);
  }
  const auto add = [](__m256i x, __m256i y) { return _mm256_add_epi32(x, y); };
  return SumInts(add(add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h))), add(add(i, j), add(k, l))));
}

}  // namespace

extern const LimitKernels avx_vnni_limit = {Read, MultiplyAdd, 12 * 16, IntegerMix, 12 * 64, IntegerMix, 12 * 64};

}  // namespace minicpm::kernels
