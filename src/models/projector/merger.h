// V 4.6's last step of vision: windows of 2 x 2 encoded rows -> one row of the language model's width. Official code:
// MiniCPMV4_6Merger, MiniCPMV4_6DownsampleMLP. Not the merger inside the encoder: models/siglip/window_merger.h.
#pragma once

#include <string>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/compute.h"

namespace minicpm {

struct MergerWeights {
  NormField pre_norm;    // [4 D]
  LinearField linear_1;  // [4 D, 4 D]
  LinearField linear_2;  // [E, 4 D]
};

// Names every tensor under `prefix` ("model.merger.mlp.0.").
Status VisitMerger(const MergerConfig& config, const std::string& prefix, TensorVisitor& v, MergerWeights& w);

// One view on its way through the merger, in pieces. Lifetime: everything passed outlives it.
class MergerRun {
 public:
  // x [grid_rows * grid_cols, D], both even; out [grid_rows * grid_cols / 4, E]; item = view number for the Tap.
  MergerRun(const MergerConfig& config, const MergerWeights& weights, ConstMatrix x, int64_t grid_cols, Matrix out,
            int item);
  // Does the next piece; true when `out` is complete.
  bool Step(Compute& compute);

 private:
  const MergerConfig& config_;
  const MergerWeights& weights_;
  ConstMatrix x_;
  int64_t grid_cols_;
  Matrix out_;
  int item_;
  int64_t next_ = 0;  // row of out_
};

}  // namespace minicpm
