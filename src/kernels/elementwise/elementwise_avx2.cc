// AVX2 form of elementwise.h. tanh and the logistic function come from one exponential; erf from a polynomial of degree
// 7 in 1 / (1 + 0.45 z), fitted to erfc(z) exp(z^2) on [0, 10] (absolute error of erfc 1.5e-8).
#include "kernels/elementwise/elementwise.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

// y[i] = f(y[i]): whole vectors, then a masked one.
template <class F>
void Map(float* y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) Store(y + i, f(Load(y + i)));
  if (i < n) StoreFirst(y + i, n - i, f(LoadFirst(y + i, n - i)));
}

// x / (1 + exp(-u))
inline Vec TimesLogistic(Vec x, Vec u) { return _mm256_div_ps(x, Add(Set(1.0f), Exp(_mm256_sub_ps(Zero(), u)))); }

inline Vec GeluTanh(Vec x) {
  // 0.5 (1 + tanh(t)) = 1 / (1 + exp(-2 t))
  const Vec cube = Mul(Mul(x, x), x);
  return TimesLogistic(x, Mul(Set(1.5957691216f), Fma(cube, Set(0.044715f), x)));
}

inline Vec GeluErf(Vec x) {
  const Vec sign = _mm256_and_ps(x, Set(-0.0f));
  const Vec z = Mul(_mm256_xor_ps(x, sign), Set(0.70710678f));
  const Vec t = _mm256_div_ps(Set(1.0f), Fma(z, Set(0.45f), Set(1.0f)));
  Vec p = Set(0.08789412677288055f);
  p = Fma(p, t, Set(-0.4715348482131958f));
  p = Fma(p, t, Set(0.8120766282081604f));
  p = Fma(p, t, Set(-0.3280908465385437f));
  p = Fma(p, t, Set(0.4319784939289093f));
  p = Fma(p, t, Set(0.20982685685157776f));
  p = Fma(p, t, Set(0.2578495740890503f));
  const Vec erfc = Mul(Mul(p, t), Exp(_mm256_sub_ps(Zero(), Mul(z, z))));  // of |x| / sqrt(2)
  // 0.5 x erfc(-x / sqrt(2)): erfc(-z) = 2 - erfc(z)
  const Vec positive = _mm256_cmp_ps(x, Zero(), _CMP_GT_OQ);
  const Vec factor = _mm256_blendv_ps(erfc, _mm256_sub_ps(Set(2.0f), erfc), positive);
  return Mul(Mul(Set(0.5f), x), factor);
}

void AddRun(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) Store(y + i, Add(Load(y + i), Load(x + i)));
  if (i < n) StoreFirst(y + i, n - i, Add(LoadFirst(y + i, n - i), LoadFirst(x + i, n - i)));
}

void SiluMulRun(float* gate, const float* up, int64_t n) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) {
    const Vec g = Load(gate + i);
    Store(gate + i, Mul(TimesLogistic(g, g), Load(up + i)));
  }
  if (i < n) {
    const Vec g = LoadFirst(gate + i, n - i);
    StoreFirst(gate + i, n - i, Mul(TimesLogistic(g, g), LoadFirst(up + i, n - i)));
  }
}

void SigmoidMulRun(const float* gate, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kVec <= n; i += kVec) Store(y + i, TimesLogistic(Load(y + i), Load(gate + i)));
  if (i < n) StoreFirst(y + i, n - i, TimesLogistic(LoadFirst(y + i, n - i), LoadFirst(gate + i, n - i)));
}

void GeluTanhRun(float* y, int64_t n) { Map(y, n, GeluTanh); }
void GeluErfRun(float* y, int64_t n) { Map(y, n, GeluErf); }
void ReluRun(float* y, int64_t n) {
  Map(y, n, [](Vec v) { return _mm256_max_ps(v, Zero()); });
}

void RotateRun(float* x, int64_t half, const float* c, const float* s) {
  const auto rotate = [](Vec a, Vec b, Vec cos, Vec sin, Vec& first, Vec& second) {
    first = _mm256_fmsub_ps(a, cos, Mul(b, sin));
    second = Fma(b, cos, Mul(a, sin));
  };
  int64_t i = 0;
  Vec first;
  Vec second;
  for (; i + kVec <= half; i += kVec) {
    rotate(Load(x + i), Load(x + half + i), Load(c + i), Load(s + i), first, second);
    Store(x + i, first);
    Store(x + half + i, second);
  }
  if (i < half) {
    const int64_t n = half - i;
    rotate(LoadFirst(x + i, n), LoadFirst(x + half + i, n), LoadFirst(c + i, n), LoadFirst(s + i, n), first, second);
    StoreFirst(x + i, n, first);
    StoreFirst(x + half + i, n, second);
  }
}

}  // namespace

extern const ElementwiseKernels avx2_elementwise = {AddRun,     SiluMulRun, SigmoidMulRun, GeluTanhRun,
                                                    GeluErfRun, ReluRun,    RotateRun};

}  // namespace minicpm::kernels
