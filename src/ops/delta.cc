// Implementation of delta.h: heads over threads for the delta rule, rows for everything else.
#include "ops/delta.h"

#include <cmath>
#include <cstring>

#include "kernels/delta/delta.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/table.h"
#include "ops/rows.h"

namespace minicpm {
namespace {

constexpr int64_t kMostTaps = 16;

void CopyRow(const float* from, int64_t n, float* to) { std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); }

}  // namespace

void CausalConvSilu(Compute& compute, ConstMatrix x, const float* weight, int64_t taps, float* state, Matrix out) {
  MINICPM_CHECK(taps >= 1 && taps <= kMostTaps && x.rows == out.rows && x.cols == out.cols);
  const int64_t width = x.cols;
  const int64_t past = taps - 1;
  auto* const kernel = compute.kernels().delta->conv_silu;
  // Input number i - past of the call; those before it are in the state.
  const auto input = [&](int64_t i) { return i < past ? state + i * width : x.row(i - past); };
  ForRows(compute, x.rows, width, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* rows[kMostTaps];
      for (int64_t j = 0; j < taps; ++j) rows[j] = input(t + j);
      kernel(rows, weight, taps, width, out.row(t));
    }
  });
  for (int64_t i = 0; i < past; ++i) CopyRow(input(x.rows + i), width, state + i * width);  // moves towards the front
}

void DeltaGates(Compute& compute, const float* rate, const float* bias, Matrix a, Matrix b) {
  MINICPM_CHECK(a.rows == b.rows && a.cols == b.cols);
  constexpr int64_t kCost = 64;  // a transcendental function beside a copied float
  ForRows(compute, a.rows, a.cols * kCost, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < a.cols; ++h) {
        const double x = static_cast<double>(a.row(t)[h]) + static_cast<double>(bias[h]);
        const double softplus = x > 30.0 ? x : std::log1p(std::exp(x));
        a.row(t)[h] = static_cast<float>(std::exp(-static_cast<double>(rate[h]) * softplus));
        b.row(t)[h] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b.row(t)[h]))));
      }
    }
  });
}

void GatedDelta(Compute& compute, const DeltaArgs& args) {
  const int64_t tokens = args.mixed.rows;
  const int64_t heads = args.n_heads;
  const int64_t dk = args.key_dim;
  const int64_t dv = args.value_dim;
  MINICPM_CHECK(heads > 0 && args.mixed.cols == heads * (2 * dk + dv) && args.out.cols == heads * dv);
  MINICPM_CHECK(args.out.rows == tokens && args.decay.rows == tokens && args.beta.rows == tokens);
  MINICPM_CHECK(args.decay.cols == heads && args.beta.cols == heads && args.decay.stride == args.beta.stride);
  if (tokens == 0) return;
  compute.scratch().Reset();
  const kernels::DeltaKernels& kernel = *compute.kernels().delta;
  const bool chunked = args.form == DeltaForm::kChunked;
  const int64_t scratch_floats = (kernels::DeltaChunkFloats(dv) + 15) / 16 * 16;
  float* const scratch = chunked ? compute.scratch().New<float>(scratch_floats * compute.pool().size()) : nullptr;
  compute.pool().ParallelFor(heads, [&](int64_t h, int thread) {
    kernels::DeltaRun run;
    run.q = args.mixed.data + h * dk;
    run.k = args.mixed.data + (heads + h) * dk;
    run.v = args.mixed.data + 2 * heads * dk + h * dv;
    run.stride = args.mixed.stride;
    run.decay = args.decay.data + h;
    run.beta = args.beta.data + h;
    run.gate_stride = args.decay.stride;
    run.out = args.out.data + h * dv;
    run.out_stride = args.out.stride;
    run.state = args.state + h * dk * dv;
    run.n = tokens;
    run.dk = dk;
    run.dv = dv;
    if (chunked) {
      kernel.chunked(run, scratch + thread * scratch_floats);
    } else {
      kernel.recurrent(run);
    }
  });
}

void SigmoidMul(Compute& compute, ConstMatrix gate, Matrix y) {
  MINICPM_CHECK(gate.rows == y.rows && gate.cols == y.cols);
  auto* const kernel = compute.kernels().elementwise->sigmoid_mul;
  ForPieces(compute, y.rows, y.cols, [&](int64_t row, int64_t begin, int64_t end) {
    kernel(gate.row(row) + begin, end - begin, y.row(row) + begin);
  });
}

void SplitPairs(Compute& compute, ConstMatrix x, int64_t width, Matrix first, Matrix second) {
  MINICPM_CHECK(width > 0 && first.cols % width == 0 && x.cols == 2 * first.cols && second.cols == first.cols);
  MINICPM_CHECK(first.rows == x.rows && second.rows == x.rows);
  ForRows(compute, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t at = 0; at < first.cols; at += width) {
        CopyRow(x.row(r) + 2 * at, width, first.row(r) + at);
        CopyRow(x.row(r) + 2 * at + width, width, second.row(r) + at);
      }
    }
  });
}

}  // namespace minicpm
