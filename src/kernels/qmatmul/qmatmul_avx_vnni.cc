// AVX-VNNI form of qmatmul.h, 256 bits. No CPU of the machines this was made on has the instruction: tests run the same
// code with the instruction spelled out in AVX2 (qmatmul_avx_vnni_emulated.cc); the instruction itself never ran.
#include <immintrin.h>

#include "kernels/qmatmul/qmatmul_dot.h"
#include "kernels/qmatmul/quantize_vnni.h"

namespace minicpm::kernels {
namespace {

struct AvxVnni {
  static constexpr int kTileRows = 6;
  struct Sum {
    __m256i low, high;
  };
  using Piece = Sum;
  using Columns = const int8_t*;
  struct Floats {
    __m256 low, high;
  };

  static __m256i Load(const std::byte* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
  static Piece LoadPiece(const std::byte* p) { return {Load(p), Load(p + 32)}; }
  static void SplitNibbles(const std::byte* p, Piece& a, Piece& b) {
    const __m256i mask = _mm256_set1_epi8(15);
    const Piece both = LoadPiece(p);
    a = {_mm256_and_si256(both.low, mask), _mm256_and_si256(both.high, mask)};
    b = {_mm256_and_si256(_mm256_srli_epi16(both.low, 4), mask),
         _mm256_and_si256(_mm256_srli_epi16(both.high, 4), mask)};
  }
  static void Prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p + 1024), _MM_HINT_T0); }
  static Columns LoadColumns(const int8_t* q) { return q; }
  static Sum Broadcast(int32_t v) { return {_mm256_set1_epi32(v), _mm256_set1_epi32(v)}; }

  // Unsigned times signed: four products of bytes and a sum.
  static __m256i DotHalf(__m256i sum, __m256i w, __m256i x) {
#ifdef MINICPM_EMULATE_VNNI
    const __m256i pairs = _mm256_maddubs_epi16(w, x);  // weights of 7 bits: pairs fit
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
    return _mm256_dpbusd_avx_epi32(sum, w, x);
#endif
  }
  template <int kLane>
  static Sum Dot(const Sum& sum, const Piece& w, Columns q) {
    int32_t four;
    std::memcpy(&four, q + 4 * kLane, sizeof(four));
    const __m256i x = _mm256_set1_epi32(four);
    return {DotHalf(sum.low, w.low, x), DotHalf(sum.high, w.high, x)};
  }
  // In the order of rows.
  static Sum LoadSubScales(const std::byte* t) {
    const __m128i rows = _mm_shuffle_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(t)), 0xd8);
    return {_mm256_cvtepi8_epi32(rows), _mm256_cvtepi8_epi32(_mm_srli_si128(rows, 8))};
  }
  static Sum MultiplyAdd(const Sum& sum, const Sum& a, const Sum& b) {
    return {_mm256_add_epi32(sum.low, _mm256_mullo_epi32(a.low, b.low)),
            _mm256_add_epi32(sum.high, _mm256_mullo_epi32(a.high, b.high))};
  }

  static Floats ZeroFloats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Floats LoadFloats(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void StoreFloats(float* p, const Floats& v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static Floats FloatMultiplyAdd(const Sum& a, float b, const Floats& c) {
    const __m256 scale = _mm256_set1_ps(b);
    return {_mm256_fmadd_ps(_mm256_cvtepi32_ps(a.low), scale, c.low),
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(a.high), scale, c.high)};
  }
  static Floats Multiply(const Floats& a, const Floats& b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
};

}  // namespace

extern const QMatmulKernels avx_vnni_qmatmul = {
    12,
    64,
    {Quantize<DotFormat8>, DotFew<AvxVnni, DotInt8>, DotMany<AvxVnni, DotInt8>},
    {Quantize<DotFormat4>, DotFew<AvxVnni, DotInt4>, DotMany<AvxVnni, DotInt4>}};

}  // namespace minicpm::kernels
