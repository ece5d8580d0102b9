// What follows the audio encoder: its frames -> rows of the language model's width, one for every pool_step frames.
// Official code: modeling_minicpmo.py (MultiModalProjector, then an average pooling). Not for the encoder (whisper).
#pragma once

#include <string>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/compute.h"

namespace minicpm {

struct AudioProjectorWeights {
  LinearField linear1;  // [E, A]
  LinearField linear2;  // [E, E]
};

// Names every tensor under `prefix` ("audio_projection_layer."); n_embed: E.
Status VisitAudioProjector(const AudioConfig& config, int64_t n_embed, const std::string& prefix, TensorVisitor& v,
                           AudioProjectorWeights& w);

// out [P, E] = average over each run of pool_step rows of linear2(relu(linear1(x))). x [C, A], C >= P * pool_step; rows
// of x beyond that are not read. A row of `out` depends on its frames only, so any cut into calls gives the same bits.
void ProjectAudio(Compute& compute, const AudioConfig& config, const AudioProjectorWeights& weights, ConstMatrix x,
                  Matrix out);

}  // namespace minicpm
