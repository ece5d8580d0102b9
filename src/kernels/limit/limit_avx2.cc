// AVX2 form of limit.h. 8 sums of integers, because each needs temporaries.
#include "kernels/limit/limit_avx2.h"

namespace minicpm::kernels {
namespace {

// Bytes of a signed and an unsigned operand, and ones to add neighbours.
struct Factors {
  __m256i u = _mm256_set1_epi8(5);
  __m256i s = _mm256_set1_epi8(-3);
  __m256i ones = _mm256_set1_epi16(1);
};

struct Int8Step {
  static void Do(__m256i& sum, const Factors& f) {
    __m256i products;
    asm volatile(
        "vpmaddubsw %3, %2, %1\n\t"
        "vpmaddwd %4, %1, %1\n\t"
        "vpaddd %1, %0, %0"
        : "+x"(sum), "=&x"(products)
        : "x"(f.u), "x"(f.s), "x"(f.ones));
  }
};

// Four products of bytes added in 16 bits for one widening.
struct Int4Step {
  static void Do(__m256i& sum, const Factors& f) {
    __m256i partial;
    __m256i products;
    asm volatile(
        "vpmaddubsw %4, %3, %1\n\t"
        "vpmaddubsw %4, %3, %2\n\t"
        "vpaddw %2, %1, %1\n\t"
        "vpmaddubsw %4, %3, %2\n\t"
        "vpaddw %2, %1, %1\n\t"
        "vpmaddubsw %4, %3, %2\n\t"
        "vpaddw %2, %1, %1\n\t"
        "vpmaddwd %5, %1, %1\n\t"
        "vpaddd %1, %0, %0"
        : "+x"(sum), "=&x"(partial), "=&x"(products)
        : "x"(f.u), "x"(f.s), "x"(f.ones));
  }
};

template <class Step>
int32_t IntegerMix(int64_t turns) {
  const Factors f;
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, e = a, g = a, h = a, i = a;
  for (; turns > 0; --turns) {
    Step::Do(a, f);
    Step::Do(b, f);
    Step::Do(c, f);
    Step::Do(d, f);
    Step::Do(e, f);
    Step::Do(g, f);
    Step::Do(h, f);
    Step::Do(i, f);
  }
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)),
                                       _mm256_add_epi32(_mm256_add_epi32(e, g), _mm256_add_epi32(h, i)));
  return SumInts(sum);
}

}  // namespace

extern const LimitKernels avx2_limit = {Read,   MultiplyAdd,          12 * 16, IntegerMix<Int8Step>,
                                        8 * 64, IntegerMix<Int4Step>, 8 * 256};

}  // namespace minicpm::kernels
