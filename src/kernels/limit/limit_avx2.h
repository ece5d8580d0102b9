// Reading and float multiply-adds of limit.h with AVX2: plain loads in order, and 12 independent sums, enough to hide
// the latency of two units. Shared by the x86 instruction sets; included by their files only, internal linkage.
//
// All arithmetic of these loops is opaque to the compiler, which would otherwise move it out of the loop or its sums to
// memory.
#pragma once

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

// Sum of the lanes, modulo 2^32.
inline int32_t SumInts(__m256i v) {
  alignas(32) int32_t lane[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lane), v);
  uint32_t total = 0;
  for (const int32_t l : lane) total += static_cast<uint32_t>(l);
  return static_cast<int32_t>(total);
}

}  // namespace
}  // namespace minicpm::kernels
