// AVX2 form of delta.h. Columns of S do not touch each other, so a stripe of 16 stays in the first-level cache while
// all tokens of a tile pass over it. The recurrence reads and writes a stripe once a token: the update that the last
// token left and the sums that the next one needs are one pass, with out = decay S^T q + (k . q) d in place of a second
// one.
#include "kernels/delta/delta.h"
#include "kernels/simd_avx2.h"

namespace minicpm::kernels {
namespace {

constexpr int64_t kStripe = 2 * kVec;  // columns
constexpr int64_t kTile = 64;          // tokens

float Dot(const float* a, const float* b, int64_t n) {
  Vec sum[2] = {Zero(), Zero()};
  int64_t i = 0;
  for (; i + 2 * kVec <= n; i += 2 * kVec) {
    sum[0] = Fma(Load(a + i), Load(b + i), sum[0]);
    sum[1] = Fma(Load(a + i + kVec), Load(b + i + kVec), sum[1]);
  }
  for (; i < n; i += kVec) {
    const int64_t rest = n - i < kVec ? n - i : kVec;
    sum[0] = Fma(LoadFirst(a + i, rest), LoadFirst(b + i, rest), sum[0]);
  }
  return SumLanes(Add(sum[0], sum[1]));
}

// Two vectors of neighbouring columns; kWhole: all 16 are there, else `left` of them.
struct Pair {
  Vec a, b;
};
template <bool kWhole>
struct Columns {
  int64_t left;
  Pair Get(const float* p) const {
    if constexpr (kWhole) return {Load(p), Load(p + kVec)};
    const int64_t second = left > kVec ? left - kVec : 0;
    return {LoadFirst(p, left < kVec ? left : kVec), second > 0 ? LoadFirst(p + kVec, second) : Zero()};
  }
  void Put(float* p, Pair v) const {
    if constexpr (kWhole) {
      Store(p, v.a);
      Store(p + kVec, v.b);
      return;
    }
    StoreFirst(p, left < kVec ? left : kVec, v.a);
    if (left > kVec) StoreFirst(p + kVec, left - kVec, v.b);
  }
};

// state + k d, decayed: what a token leaves behind.
inline Pair Updated(Pair s, Vec decay, float k, Pair d) {
  const Vec key = Set(k);
  return {Fma(key, d.a, Mul(s.a, decay)), Fma(key, d.b, Mul(s.b, decay))};
}

// All tokens of a tile over one stripe. kq[t] = k_t . q_t.
template <bool kWhole>
void Stripe(const DeltaRun& r, int64_t column, const float* kq) {
  const Columns<kWhole> columns{r.dv - column};
  float* const state = r.state + column;
  Pair d{Zero(), Zero()};
  Vec decay = Zero();
  for (int64_t t = 0; t < r.n; ++t) {
    const float* q = r.q + t * r.stride;
    const float* k = r.k + t * r.stride;
    Pair found{Zero(), Zero()};
    Pair asked{Zero(), Zero()};
    const auto gather = [&](int64_t i, Pair s) {
      const Vec key = Set(k[i]);
      const Vec query = Set(q[i]);
      found = {Fma(key, s.a, found.a), Fma(key, s.b, found.b)};
      asked = {Fma(query, s.a, asked.a), Fma(query, s.b, asked.b)};
    };
    if (t == 0) {
      for (int64_t i = 0; i < r.dk; ++i) gather(i, columns.Get(state + i * r.dv));
    } else {
      const float* before = k - r.stride;
      for (int64_t i = 0; i < r.dk; ++i) {
        const Pair s = Updated(columns.Get(state + i * r.dv), decay, before[i], d);
        columns.Put(state + i * r.dv, s);
        gather(i, s);
      }
    }
    decay = Set(r.decay[t * r.gate_stride]);
    const Vec beta = Set(r.beta[t * r.gate_stride]);
    const Pair v = columns.Get(r.v + t * r.stride + column);
    d = {Mul(beta, _mm256_fnmadd_ps(decay, found.a, v.a)), Mul(beta, _mm256_fnmadd_ps(decay, found.b, v.b))};
    const Vec self = Set(kq[t]);
    columns.Put(r.out + t * r.out_stride + column,
                {Fma(self, d.a, Mul(decay, asked.a)), Fma(self, d.b, Mul(decay, asked.b))});
  }
  const float* last = r.k + (r.n - 1) * r.stride;
  for (int64_t i = 0; i < r.dk; ++i) {
    columns.Put(state + i * r.dv, Updated(columns.Get(state + i * r.dv), decay, last[i], d));
  }
}

// Tokens [t, t + n) of a run.
DeltaRun Part(const DeltaRun& run, int64_t t, int64_t n) {
  DeltaRun part = run;
  part.n = n;
  part.q += t * run.stride;
  part.k += t * run.stride;
  part.v += t * run.stride;
  part.decay += t * run.gate_stride;
  part.beta += t * run.gate_stride;
  part.out += t * run.out_stride;
  return part;
}

void Recurrent(const DeltaRun& run) {
  for (int64_t t = 0; t < run.n; t += kTile) {
    const DeltaRun tile = Part(run, t, run.n - t < kTile ? run.n - t : kTile);
    float kq[kTile];
    for (int64_t i = 0; i < tile.n; ++i) kq[i] = Dot(tile.k + i * run.stride, tile.q + i * run.stride, run.dk);
    int64_t column = 0;
    for (; column + kStripe <= run.dv; column += kStripe) Stripe<true>(tile, column, kq);
    if (column < run.dv) Stripe<false>(tile, column, kq);
  }
}

// One stripe of a chunk. keys, queries [n, kDeltaChunk]: G_t / G_i times k_t . k_i (i < t) and q_t . k_i (i <= t);
// whole [n]: G_t; left [n]: G_n / G_i; d [n, kStripe].
template <bool kWhole>
void ChunkStripe(const DeltaRun& r, int64_t column, const float* keys, const float* queries, const float* whole,
                 const float* left, float* d) {
  const Columns<kWhole> columns{r.dv - column};
  float* const state = r.state + column;
  const auto through = [&](const float* x) {
    Pair sum{Zero(), Zero()};
    for (int64_t i = 0; i < r.dk; ++i) {
      const Pair s = columns.Get(state + i * r.dv);
      const Vec value = Set(x[i]);
      sum = {Fma(value, s.a, sum.a), Fma(value, s.b, sum.b)};
    }
    return sum;
  };
  const auto add = [&](Pair sum, float factor, const float* from) {
    const Vec f = Set(factor);
    return Pair{Fma(f, Load(from), sum.a), Fma(f, Load(from + kVec), sum.b)};
  };
  for (int64_t t = 0; t < r.n; ++t) {
    Pair seen = through(r.k + t * r.stride);
    const Vec w = Set(whole[t]);
    seen = {Mul(w, seen.a), Mul(w, seen.b)};
    for (int64_t i = 0; i < t; ++i) seen = add(seen, keys[t * kDeltaChunk + i], d + i * kStripe);
    const Pair v = columns.Get(r.v + t * r.stride + column);
    const Vec beta = Set(r.beta[t * r.gate_stride]);
    Store(d + t * kStripe, Mul(beta, _mm256_sub_ps(v.a, seen.a)));
    Store(d + t * kStripe + kVec, Mul(beta, _mm256_sub_ps(v.b, seen.b)));
  }
  for (int64_t t = 0; t < r.n; ++t) {
    Pair sum = through(r.q + t * r.stride);
    const Vec w = Set(whole[t]);
    sum = {Mul(w, sum.a), Mul(w, sum.b)};
    for (int64_t i = 0; i <= t; ++i) sum = add(sum, queries[t * kDeltaChunk + i], d + i * kStripe);
    columns.Put(r.out + t * r.out_stride + column, sum);
  }
  const Vec w = Set(whole[r.n - 1]);
  for (int64_t i = 0; i < r.dk; ++i) {
    Pair s = columns.Get(state + i * r.dv);
    s = {Mul(w, s.a), Mul(w, s.b)};
    for (int64_t t = 0; t < r.n; ++t) s = add(s, left[t] * r.k[t * r.stride + i], d + t * kStripe);
    columns.Put(state + i * r.dv, s);
  }
}

void Chunk(const DeltaRun& r, float* scratch) {
  float* const keys = scratch;
  float* const queries = keys + kDeltaChunk * kDeltaChunk;
  float* const whole = queries + kDeltaChunk * kDeltaChunk;
  float left[kDeltaChunk];
  alignas(32) float d[kDeltaChunk * kStripe];
  for (int64_t t = 0; t < r.n; ++t) {
    const float decay = r.decay[t * r.gate_stride];
    whole[t] = t == 0 ? decay : whole[t - 1] * decay;
    for (int64_t i = 0; i < t; ++i) left[i] *= decay;
    left[t] = 1.0f;
    const float* k = r.k + t * r.stride;
    const float* q = r.q + t * r.stride;
    for (int64_t i = 0; i <= t; ++i) {
      const float* other = r.k + i * r.stride;
      keys[t * kDeltaChunk + i] = left[i] * Dot(k, other, r.dk);
      queries[t * kDeltaChunk + i] = left[i] * Dot(q, other, r.dk);
    }
  }
  int64_t column = 0;
  for (; column + kStripe <= r.dv; column += kStripe) ChunkStripe<true>(r, column, keys, queries, whole, left, d);
  if (column < r.dv) ChunkStripe<false>(r, column, keys, queries, whole, left, d);
}

void Chunked(const DeltaRun& run, float* scratch) {
  for (int64_t t = 0; t < run.n; t += kDeltaChunk) {
    Chunk(Part(run, t, run.n - t < kDeltaChunk ? run.n - t : kDeltaChunk), scratch);
  }
}

inline Vec Silu(Vec x) { return _mm256_div_ps(x, Add(Set(1.0f), Exp(_mm256_sub_ps(Zero(), x)))); }

void ConvSilu(const float* const* rows, const float* weight, int64_t taps, int64_t n, float* y) {
  int64_t c = 0;
  for (; c + kVec <= n; c += kVec) {
    Vec sum = Zero();
    for (int64_t j = 0; j < taps; ++j) sum = Fma(Load(weight + j * n + c), Load(rows[j] + c), sum);
    Store(y + c, Silu(sum));
  }
  if (c < n) {
    const int64_t rest = n - c;
    Vec sum = Zero();
    for (int64_t j = 0; j < taps; ++j) {
      sum = Fma(LoadFirst(weight + j * n + c, rest), LoadFirst(rows[j] + c, rest), sum);
    }
    StoreFirst(y + c, rest, Silu(sum));
  }
}

}  // namespace

extern const DeltaKernels avx2_delta = {Recurrent, Chunked, ConvSilu};

}  // namespace minicpm::kernels
