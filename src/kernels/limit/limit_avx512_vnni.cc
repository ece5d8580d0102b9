// AVX-512 VNNI form of limit.h; the float kernels of this table are those of AVX2. Never run: no CPU of the machines
// this was made on has the instruction.
#include "kernels/limit/limit_avx2.h"

namespace minicpm::kernels {
namespace {

inline void DotStep(__m512i& sum, __m512i u, __m512i s) {
  asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s));
}

int32_t IntegerMix(int64_t turns) {
  const __m512i u = _mm512_set1_epi8(5);
  const __m512i s = _mm512_set1_epi8(-3);
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;
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
  const auto add = [](__m512i x, __m512i y) { return _mm512_add_epi32(x, y); };
  const __m512i sum = add(add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h))), add(add(i, j), add(k, l)));
  alignas(64) __m256i halves[2];
  _mm512_store_si512(halves, sum);
  return SumInts(_mm256_add_epi32(halves[0], halves[1]));
}

}  // namespace

extern const LimitKernels avx512_vnni_limit = {Read, MultiplyAdd, 12 * 16, IntegerMix, 12 * 128, IntegerMix, 12 * 128};

}  // namespace minicpm::kernels
