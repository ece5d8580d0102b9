// AVX-512 VNNI form of qmatmul.h: the 64 bytes of 4 columns of a panel are one register. No CPU of the machines this
// was made on has AVX-512: compiled and read, never run. The loops are those of qmatmul_dot.h, which tests run with
// other vectors.
#include <immintrin.h>

#include "kernels/qmatmul/qmatmul_dot.h"
#include "kernels/qmatmul/quantize_vnni.h"

namespace minicpm::kernels {
namespace {

struct Avx512Vnni {
  static constexpr int kTileRows = 8;
  using Sum = __m512i;
  using Piece = __m512i;
  using Columns = const int8_t*;
  using Floats = __m512;

  static Piece LoadPiece(const std::byte* p) { return _mm512_load_si512(p); }
  static void SplitNibbles(const std::byte* p, Piece& a, Piece& b) {
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i both = _mm512_load_si512(p);
    a = _mm512_and_si512(both, mask);
    b = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
  }
  static void Prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p + 1024), _MM_HINT_T0); }
  static Columns LoadColumns(const int8_t* q) { return q; }
  static Sum Broadcast(int32_t v) { return _mm512_set1_epi32(v); }
  template <int kLane>
  static Sum Dot(Sum sum, Piece w, Columns q) {
    int32_t four;
    std::memcpy(&four, q + 4 * kLane, sizeof(four));
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
  }
  // In the order of rows.
  static Sum LoadSubScales(const std::byte* t) {
    return _mm512_cvtepi8_epi32(_mm_shuffle_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(t)), 0xd8));
  }
  static Sum MultiplyAdd(Sum sum, Sum a, Sum b) { return _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b)); }

  static Floats ZeroFloats() { return _mm512_setzero_ps(); }
  static Floats LoadFloats(const float* p) { return _mm512_loadu_ps(p); }
  static void StoreFloats(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  static Floats FloatMultiplyAdd(Sum a, float b, Floats c) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(a), _mm512_set1_ps(b), c);
  }
  static Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
};

}  // namespace

extern const QMatmulKernels avx512_vnni_qmatmul = {
    16,
    64,
    {Quantize<DotFormat8>, DotFew<Avx512Vnni, DotInt8>, DotMany<Avx512Vnni, DotInt8>},
    {Quantize<DotFormat4>, DotFew<Avx512Vnni, DotInt4>, DotMany<Avx512Vnni, DotInt4>}};

}  // namespace minicpm::kernels
