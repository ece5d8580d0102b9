// Scalar truth of attention.h: one row after the other, exponentials from the library, sums in float.
#include <cmath>

#include "base/half.h"
#include "kernels/attention/attention.h"

namespace minicpm::kernels {
namespace {

float Load(const AttentionChunk& a, const void* data, int64_t index) {
  switch (a.format) {
    case KvFormat::kF16:
      return F16ToF32(static_cast<const uint16_t*>(data)[index]);
    case KvFormat::kI8:
      return static_cast<const int8_t*>(data)[index];
    default:
      return static_cast<const float*>(data)[index];
  }
}

float Scale(const AttentionChunk& a, const float* scales, int64_t token) {
  return a.format == KvFormat::kI8 ? scales[a.scale_offset + token] : 1.0f;
}

// Scores of one row against `n` keys of a block; returns their maximum.
float Scores(const AttentionChunk& a, const float* q, const KvBlock& block, int64_t n, float* scores) {
  float maximum = -INFINITY;
  for (int64_t j = 0; j < n; ++j) {
    float sum = 0;
    for (int64_t d = 0; d < a.head_dim; ++d) {
      sum += q[d] * Load(a, block.keys, a.head_offset + j * a.token_stride + d);
    }
    scores[j] = sum * a.scale * Scale(a, block.key_scales, j);
    maximum = std::fmax(maximum, scores[j]);
  }
  return maximum;
}

void AttendRow(const AttentionChunk& a, const float* q, int64_t visible, float* out) {
  float maximum = -INFINITY;
  float sum = 0;
  for (int64_t d = 0; d < a.head_dim; ++d) out[d] = 0;
  for (int64_t first = 0; first < visible; first += kKvBlockTokens) {
    const KvBlock& block = a.blocks[first / kKvBlockTokens];
    const int64_t n = visible - first < kKvBlockTokens ? visible - first : kKvBlockTokens;
    float scores[kKvBlockTokens];
    const float here = std::fmax(maximum, Scores(a, q, block, n, scores));
    const float keep = std::exp(maximum - here);
    maximum = here;
    float part = 0;
    for (int64_t j = 0; j < n; ++j) {
      scores[j] = std::exp(scores[j] - maximum);
      part += scores[j];
      scores[j] *= Scale(a, block.value_scales, j);
    }
    sum = sum * keep + part;
    for (int64_t d = 0; d < a.head_dim; ++d) {
      float o = out[d] * keep;
      for (int64_t j = 0; j < n; ++j) {
        o += scores[j] * Load(a, block.values, a.head_offset + j * a.token_stride + d);
      }
      out[d] = o;
    }
  }
  for (int64_t d = 0; d < a.head_dim; ++d) out[d] /= sum;
}

void Attend(const AttentionChunk& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t g = 0; g < a.group; ++g) {
      AttendRow(a, a.q + t * a.q_stride + g * a.head_dim, a.visible + t * a.visible_step,
                a.out + t * a.out_stride + g * a.head_dim);
    }
  }
}

int64_t ScratchFloats(int64_t, int64_t) { return 0; }

}  // namespace

extern const AttentionKernels scalar_attention = {ScratchFloats, Attend};

}  // namespace minicpm::kernels
