// V 4.6's merger inside the vision encoder: windows of 2 x 2 patches attend among themselves and become one row each.
// Official code: MiniCPMV4_6ViTWindowAttentionMerger. Not the last merger: models/projector/merger.h.
#pragma once

#include <string>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/compute.h"

namespace minicpm {

struct WindowMergerWeights {
  NormField norm1;           // [D]
  LinearField q, k, v, out;  // [D, D]
  NormField pre_norm;        // [4 D]
  LinearField linear_1;      // [4 Fv, 4 D]
  LinearField linear_2;      // [D, 4 Fv]
};

// Names every tensor under `prefix` ("model.vision_tower.vit_merger.").
Status VisitWindowMerger(const VisionConfig& config, const std::string& prefix, TensorVisitor& v,
                         WindowMergerWeights& w);

// Windows [first, first + n) of a view of grid_cols patches a row: x [P, D] row-major patches -> out [n, D]. Windows
// are numbered row by row; their own order inside is the patches' row by row. Any cut gives the same bits.
void MergeWindows(Compute& compute, const VisionConfig& config, const WindowMergerWeights& weights, ConstMatrix x,
                  int64_t grid_cols, int64_t first, Matrix out);

}  // namespace minicpm
