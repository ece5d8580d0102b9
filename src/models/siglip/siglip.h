// SigLIP NaViT vision encoder: patches of one view -> one row per patch. Official code: modeling_navit_siglip.py.
// Not for pixels (src/image) or for what comes after the last norm (models/projector). In V 4.6 the number of rows may
// shrink to a quarter on the way (window_merger.h).
#pragma once

#include <vector>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "models/siglip/window_merger.h"
#include "ops/compute.h"
#include "ops/packed_attention.h"

namespace minicpm {

struct SiglipLayer {
  NormField norm1, norm2;
  LinearField q, k, v, out;  // [D, D]
  LinearField fc1;           // [Fv, D]
  LinearField fc2;           // [D, Fv]
};

struct SiglipWeights {
  TensorView patch_embedding;       // [D, 3, 14, 14], used as [D, C]
  std::vector<float> patch_bias;    // [D]
  TensorView position_embedding;    // [n_side^2, D]
  std::vector<SiglipLayer> layers;  // kept layers only
  NormField post_norm;
  WindowMergerWeights merger;  // V 4.6 only
};

// Names every tensor under `prefix` ("vpm."; of V 4.6 "model.vision_tower.").
Status VisitSiglip(const VisionConfig& config, const std::string& prefix, TensorVisitor& v, SiglipWeights& w);

// One view on its way through the encoder, cut into pieces of a few tens of milliseconds. Buffers belong to this
// object, so a view may be interrupted between pieces. Lifetime: config, weights, patches and position_ids outlive it.
class SiglipRun {
 public:
  // patches [P, C]; position_ids [P], each < n_side^2; item = view number for the Tap.
  SiglipRun(const VisionConfig& config, const SiglipWeights& weights, ConstMatrix patches, const int32_t* position_ids,
            int item);
  // Before the first Step: merge windows of 2 x 2 patches after config.merge_after_layer. Requires: an even grid of
  // P patches, `grid_cols` a row.
  void MergeWindowsOf(int64_t grid_cols);
  // Does the next piece; true when output() is complete.
  bool Step(Compute& compute);
  // [P, D], or [P / 4, D] when windows were merged, after post_norm. Requires: Step returned true.
  Matrix output() const { return hidden_; }

 private:
  void Embed(Compute& compute);
  void ProjectQkv(Compute& compute, const SiglipLayer& layer, int64_t row);
  void AttendAndFeedForward(Compute& compute, const SiglipLayer& layer, int64_t row);
  void LayOut(int64_t rows);
  void FinishLayer(Compute& compute);
  void MergePiece(Compute& compute);

  const VisionConfig& config_;
  const SiglipWeights& weights_;
  ConstMatrix patches_;
  const int32_t* position_ids_;
  int item_;
  AlignedBytes memory_;
  Matrix hidden_, q_, k_, v_;  // [P, D] each
  PackedKeysValues packed_;    // of k_, v_ in layers with quantised weights
  enum class Phase { kEmbed, kQkv, kRest, kMerge, kPostNorm, kDone };
  Phase phase_ = Phase::kEmbed;
  size_t layer_ = 0;
  int64_t row_ = 0;         // first row of the next piece
  int64_t merge_cols_ = 0;  // patches of a row of the grid; 0: windows are not merged
};

}  // namespace minicpm
