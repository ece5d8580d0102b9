// AVX2 and FMA form of limit.h: plain loads in order, and 12 independent sums (8 of integers, which need temporaries),
// enough to hide the latency of two units. The arithmetic is opaque to the compiler, which would otherwise move it out
// of the loop or its sums to memory.
#include "kernels/limit/limit.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

uint64_t Read(const void* data, int64_t bytes) {
  const auto* p = static_cast<const __m256i*>(data);
  const auto* const end = p + bytes / 32;
  __m256i x[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  for (; p < end; p += 8) {
    for (int i = 0; i < 8; ++i) x[i % 4] = _mm256_xor_si256(x[i % 4], _mm256_load_si256(p + i));
  }
  alignas(32) uint64_t words[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(words),
                     _mm256_xor_si256(_mm256_xor_si256(x[0], x[1]), _mm256_xor_si256(x[2], x[3])));
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

inline void Step(Vec& sum, Vec factor, Vec term) {
  asm volatile("vfmadd231ps %1, %2, %0" : "+x"(sum) : "x"(factor), "x"(term));
}

float MultiplyAdd(int64_t turns) {
  Vec a = Set(1.0f), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;
  const Vec factor = Set(0.999f);
  const Vec term = Set(0.001f);
  for (; turns > 0; --turns) {
    Step(a, factor, term);
    Step(b, factor, term);
    Step(c, factor, term);
    Step(d, factor, term);
    Step(e, factor, term);
    Step(f, factor, term);
    Step(g, factor, term);
    Step(h, factor, term);
    Step(i, factor, term);
    Step(j, factor, term);
    Step(k, factor, term);
    Step(l, factor, term);
  }
  return SumLanes(Add(Add(Add(Add(a, b), Add(c, d)), Add(Add(e, f), Add(g, h))), Add(Add(i, j), Add(k, l))));
}

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
  alignas(32) int32_t lane[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lane), sum);
  uint32_t total = 0;
  for (const int32_t l : lane) total += static_cast<uint32_t>(l);
  return static_cast<int32_t>(total);
}

}  // namespace

extern const LimitKernels avx2_limit = {Read,   MultiplyAdd,          12 * 16, IntegerMix<Int8Step>,
                                        8 * 64, IntegerMix<Int4Step>, 8 * 256};

}  // namespace minicpm::kernels
