// Implementation of audio_projector.h. The average is taken before linear2 instead of after it: both are linear, so the
// value is the same, and the larger of the two products has pool_step times fewer rows.
#include "models/projector/audio_projector.h"

#include "ops/linear.h"

namespace minicpm {

Status VisitAudioProjector(const AudioConfig& c, int64_t n_embed, const std::string& prefix, TensorVisitor& v,
                           AudioProjectorWeights& w) {
  MINICPM_TRY(VisitLinear(v, prefix + "linear1", n_embed, c.n_embed, HasBias::kYes, w.linear1));
  return VisitLinear(v, prefix + "linear2", n_embed, n_embed, HasBias::kYes, w.linear2);
}

void ProjectAudio(Compute& compute, const AudioConfig& config, const AudioProjectorWeights& weights, ConstMatrix x,
                  Matrix out) {
  const int64_t step = config.pool_step;
  MINICPM_CHECK(x.rows >= out.rows * step);
  ArenaScope scope(compute.arena());
  Matrix inner = compute.arena().NewMatrix(out.rows * step, out.cols);
  Linear(compute, x.Rows(0, inner.rows), weights.linear1.view(), inner, Activation::kRelu);
  Matrix pooled = compute.arena().NewMatrix(out.rows, out.cols);
  const float share = 1.0f / static_cast<float>(step);
  for (int64_t r = 0; r < out.rows; ++r) {
    float* const sum = pooled.row(r);
    for (int64_t c = 0; c < out.cols; ++c) sum[c] = 0.0f;
    for (int64_t t = 0; t < step; ++t) {
      const float* const row = inner.row(r * step + t);
      for (int64_t c = 0; c < out.cols; ++c) sum[c] += row[c];
    }
    for (int64_t c = 0; c < out.cols; ++c) sum[c] *= share;
  }
  Linear(compute, pooled, weights.linear2.view(), out);
}

}  // namespace minicpm
