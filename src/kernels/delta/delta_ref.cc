// Scalar truth of delta.h: the formulas as they stand, sums in double, state in float.
#include <algorithm>
#include <cmath>

#include "kernels/delta/delta.h"

namespace minicpm::kernels {
namespace {

void Recurrent(const DeltaRun& r) {
  for (int64_t t = 0; t < r.n; ++t) {
    const float* q = r.q + t * r.stride;
    const float* k = r.k + t * r.stride;
    const float* v = r.v + t * r.stride;
    const float decay = r.decay[t * r.gate_stride];
    const float beta = r.beta[t * r.gate_stride];
    for (int64_t j = 0; j < r.dv; ++j) {
      double found = 0;
      for (int64_t i = 0; i < r.dk; ++i) {
        r.state[i * r.dv + j] *= decay;
        found += static_cast<double>(r.state[i * r.dv + j]) * static_cast<double>(k[i]);
      }
      const auto d = static_cast<float>(static_cast<double>(beta) * (static_cast<double>(v[j]) - found));
      double out = 0;
      for (int64_t i = 0; i < r.dk; ++i) {
        r.state[i * r.dv + j] += k[i] * d;
        out += static_cast<double>(r.state[i * r.dv + j]) * static_cast<double>(q[i]);
      }
      r.out[t * r.out_stride + j] = static_cast<float>(out);
    }
  }
}

double Dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Column j of S^T x.
double Column(const DeltaRun& r, const float* x, int64_t j) {
  double sum = 0;
  for (int64_t i = 0; i < r.dk; ++i) sum += static_cast<double>(r.state[i * r.dv + j]) * static_cast<double>(x[i]);
  return sum;
}

// With G_t the product of the chunk's decays up to t:
// d_t = beta_t (v_t - G_t S^T k_t - sum over i < t of G_t / G_i (k_t . k_i) d_i)
// out_t = G_t S^T q_t + sum over i <= t of G_t / G_i (q_t . k_i) d_i
// S = G_n S + sum of G_n / G_i k_i d_i^T
void Chunk(const DeltaRun& r, float* scratch) {
  float* const d = scratch;                                // [n, dv]
  float* const ratio = scratch + kDeltaChunk * r.dv;       // [n, n]: G_t / G_i
  float* const whole = ratio + kDeltaChunk * kDeltaChunk;  // [n]: G_t
  for (int64_t t = 0; t < r.n; ++t) {
    const float decay = r.decay[t * r.gate_stride];
    whole[t] = t == 0 ? decay : whole[t - 1] * decay;
    for (int64_t i = 0; i < t; ++i) {
      ratio[t * kDeltaChunk + i] = i == t - 1 ? decay : ratio[(t - 1) * kDeltaChunk + i] * decay;
    }
    ratio[t * kDeltaChunk + t] = 1.0f;
  }
  const auto at = [&r](const float* p, int64_t t) { return p + t * r.stride; };
  for (int64_t t = 0; t < r.n; ++t) {
    for (int64_t j = 0; j < r.dv; ++j) {
      double sum = static_cast<double>(at(r.v, t)[j]) - static_cast<double>(whole[t]) * Column(r, at(r.k, t), j);
      for (int64_t i = 0; i < t; ++i) {
        sum -= static_cast<double>(ratio[t * kDeltaChunk + i]) * Dot(at(r.k, t), at(r.k, i), r.dk) *
               static_cast<double>(d[i * r.dv + j]);
      }
      d[t * r.dv + j] = static_cast<float>(static_cast<double>(r.beta[t * r.gate_stride]) * sum);
    }
  }
  for (int64_t t = 0; t < r.n; ++t) {
    for (int64_t j = 0; j < r.dv; ++j) {
      double sum = static_cast<double>(whole[t]) * Column(r, at(r.q, t), j);
      for (int64_t i = 0; i <= t; ++i) {
        sum += static_cast<double>(ratio[t * kDeltaChunk + i]) * Dot(at(r.q, t), at(r.k, i), r.dk) *
               static_cast<double>(d[i * r.dv + j]);
      }
      r.out[t * r.out_stride + j] = static_cast<float>(sum);
    }
  }
  const int64_t last = r.n - 1;
  for (int64_t a = 0; a < r.dk; ++a) {
    for (int64_t j = 0; j < r.dv; ++j) {
      double sum = static_cast<double>(whole[last]) * static_cast<double>(r.state[a * r.dv + j]);
      for (int64_t i = 0; i < r.n; ++i) {
        sum += static_cast<double>(ratio[last * kDeltaChunk + i]) * static_cast<double>(at(r.k, i)[a]) *
               static_cast<double>(d[i * r.dv + j]);
      }
      r.state[a * r.dv + j] = static_cast<float>(sum);
    }
  }
}

void Chunked(const DeltaRun& run, float* scratch) {
  for (int64_t t = 0; t < run.n; t += kDeltaChunk) {
    DeltaRun c = run;
    c.n = std::min(kDeltaChunk, run.n - t);
    c.q += t * run.stride;
    c.k += t * run.stride;
    c.v += t * run.stride;
    c.decay += t * run.gate_stride;
    c.beta += t * run.gate_stride;
    c.out += t * run.out_stride;
    Chunk(c, scratch);
  }
}

void ConvSilu(const float* const* rows, const float* weight, int64_t taps, int64_t n, float* y) {
  for (int64_t c = 0; c < n; ++c) {
    double sum = 0;
    for (int64_t j = 0; j < taps; ++j) sum += static_cast<double>(weight[j * n + c]) * static_cast<double>(rows[j][c]);
    y[c] = static_cast<float>(sum / (1.0 + std::exp(-sum)));
  }
}

}  // namespace

extern const DeltaKernels scalar_delta = {Recurrent, Chunked, ConvSilu};

}  // namespace minicpm::kernels
