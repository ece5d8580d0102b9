// Perceiver resampler: a group of encoded views -> Q rows of the language model's width. Official code: resampler.py
// (V 2.6 and o 4.5 two-dimensional; V 4.5 with temporal positions and keys shared by a group of frames).
#pragma once

#include <span>
#include <vector>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/compute.h"

namespace minicpm {

struct ResamplerWeights {
  std::vector<float> query;         // [Q, E]
  TensorView kv_proj;               // [E, D]
  TensorView in_proj;               // [3 E, E], rows q then k then v
  std::vector<float> in_proj_bias;  // [3 E]
  LinearField out_proj;             // [E, E]
  NormField norm_q, norm_kv, norm_post;
  TensorView proj;  // [E, E], used as x @ proj
};

Status VisitResampler(const ResamplerConfig& config, const std::string& prefix, TensorVisitor& v, ResamplerWeights& w);

// pos2d of one patch: [sin(col w), cos(col w), sin(row w), cos(row w)], w_j = 10000^(-j / (E/4)): the column comes
// first. out [E].
void FillPosition2d(int row, int col, int64_t n_embed, float* out);
// [sin(t w), cos(t w)], w_j = 10000^(-j / (E/2)). out [E].
void FillTemporalPosition(int64_t t, int64_t n_embed, float* out);

// One group on its way through the resampler. AddView for each view in order, Step until true.
class ResamplerRun {
 public:
  // n_keys = patches of all views of the group; out [Q, E]; item = first view's number for the Tap.
  ResamplerRun(const ResamplerConfig& config, const ResamplerWeights& weights, int64_t n_keys, Matrix out, int item);

  // Queues one view's rows. features [P, D] must live until Step has consumed them (until the next AddView or the end).
  // temporal_id < 0: a still picture.
  void AddView(ConstMatrix features, int grid_rows, int grid_cols, int temporal_id, int item);
  // Does the next piece of the queued view; true when nothing is queued any more.
  bool StepView(Compute& compute);
  // Attention and output. Requires: all n_keys rows have been added.
  void Finish(Compute& compute);

 private:
  const ResamplerConfig& config_;
  const ResamplerWeights& weights_;
  Matrix out_;
  int item_;
  AlignedBytes memory_;
  Matrix keys_, values_;  // [n_keys, E], projected
  int64_t n_added_ = 0;
  struct {
    ConstMatrix features;
    int rows = 0, cols = 0, temporal_id = -1, item = 0;
    int64_t next = 0;
  } view_;
};

}  // namespace minicpm
