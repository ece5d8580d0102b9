// AVX2 form of norm.h: sums in four registers of 8 lanes; the order depends on n only.
#include "kernels/norm/norm.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

// Sum over i of term(v[i]) with v[i] 8 neighbours; `term` gets the number of valid lanes.
template <class Term>
float SumOver(const float* x, int64_t n, Term term) {
  Vec sum[4] = {Zero(), Zero(), Zero(), Zero()};
  int64_t i = 0;
  for (; i + 4 * kVec <= n; i += 4 * kVec) {
    for (int j = 0; j < 4; ++j) sum[j] = term(Load(x + i + j * kVec), sum[j]);
  }
  for (int j = 0; i + kVec <= n; i += kVec, ++j) sum[j] = term(Load(x + i), sum[j]);
  float tail = 0;
  if (i < n) {
    const Vec masked = term(LoadFirst(x + i, n - i), Zero());
    tail = SumLanes(_mm256_and_ps(masked, _mm256_castsi256_ps(FirstLanes(n - i))));
  }
  return SumLanes(Add(Add(sum[0], sum[1]), Add(sum[2], sum[3]))) + tail;
}

float InverseRoot(float mean_square, float eps) {
  return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean_square + eps)));
}

// y[i] = value(i, x[i]); whole vectors, then a masked one.
template <class Value>
void Map(const float* x, int64_t n, float* y, const float* a, const float* b, Value value) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) Store(y + i, value(Load(x + i), Load(a + i), b != nullptr ? Load(b + i) : Zero()));
  if (i < n) {
    const int64_t rest = n - i;
    const Vec add = b != nullptr ? LoadFirst(b + i, rest) : Zero();
    StoreFirst(y + i, rest, value(LoadFirst(x + i, rest), LoadFirst(a + i, rest), add));
  }
}

void LayerNorm(const float* x, int64_t n, const float* weight, const float* bias, float eps, float* y) {
  const float mean = SumOver(x, n, [](Vec v, Vec sum) { return Add(sum, v); }) / static_cast<float>(n);
  const Vec m = Set(mean);
  const float squares = SumOver(x, n, [m](Vec v, Vec sum) {
    const Vec d = _mm256_sub_ps(v, m);
    return Fma(d, d, sum);
  });
  const Vec scale = Set(InverseRoot(squares / static_cast<float>(n), eps));
  Map(x, n, y, weight, bias, [m, scale](Vec v, Vec w, Vec b) { return Fma(Mul(_mm256_sub_ps(v, m), scale), w, b); });
}

void RmsNorm(const float* x, int64_t n, const float* weight, float eps, float* y) {
  const float squares = SumOver(x, n, [](Vec v, Vec sum) { return Fma(v, v, sum); });
  const Vec scale = Set(InverseRoot(squares / static_cast<float>(n), eps));
  Map(x, n, y, weight, nullptr, [scale](Vec v, Vec w, Vec) { return Mul(Mul(v, scale), w); });
}

}  // namespace

extern const NormKernels avx2_norm = {LayerNorm, RmsNorm};

}  // namespace minicpm::kernels
