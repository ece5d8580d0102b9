// The gated delta rule of hybrid decoders, one head at a time, and the short causal convolution before it.
// Transformers' names: torch_recurrent_gated_delta_rule, torch_chunk_gated_delta_rule, causal_conv1d_fn. Not for
// projections and norms.
#pragma once

#include <cstdint>

namespace minicpm::kernels {

// n tokens of one head. For each token: S *= decay; d = beta (v - S^T k); S += k d^T; out = S^T q.
// Pointers may be aligned to the element only; out overlaps nothing.
struct DeltaRun {
  const float* q = nullptr;  // [n, dk], scaled
  const float* k = nullptr;  // [n, dk]
  const float* v = nullptr;  // [n, dv]
  int64_t stride = 0;        // floats from one token's q (k, v) to the next one's
  const float* decay = nullptr;
  const float* beta = nullptr;
  int64_t gate_stride = 0;  // floats from one token's decay (beta) to the next one's
  float* out = nullptr;     // [n, dv]
  int64_t out_stride = 0;
  float* state = nullptr;  // S [dk, dv], continued and left for the next run
  int64_t n = 0;
  int64_t dk = 0;
  int64_t dv = 0;
};

// Tokens of one chunk of the chunked form.
inline constexpr int64_t kDeltaChunk = 64;
// Floats of scratch for it.
constexpr int64_t DeltaChunkFloats(int64_t dv) { return 2 * kDeltaChunk * kDeltaChunk + kDeltaChunk * (dv + 1); }

struct DeltaKernels {
  // Token by token. A token's result does not depend on how the tokens are cut into runs, bit for bit.
  void (*recurrent)(const DeltaRun& run);
  // The same sums by chunks of kDeltaChunk tokens: a triangular system for the d of a chunk, then one update of S.
  // Equal to the recurrence but for rounding, so results depend on where chunks begin. scratch: DeltaChunkFloats(dv).
  void (*chunked)(const DeltaRun& run, float* scratch);
  // y[c] = silu(sum of weight[j * n + c] * rows[j][c], j < taps), c < n; rows[taps - 1] is the newest token's.
  void (*conv_silu)(const float* const* rows, const float* weight, int64_t taps, int64_t n, float* y);
};

#define MINICPM_ISA(name) extern const DeltaKernels name##_delta;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
