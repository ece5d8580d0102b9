// Tap: a side door for intermediate values. Ops and models call it when it is not null; production passes null.
// Golden tests, calibration and profiling all listen here, so stage names are a contract: docs/shapes.md lists them.
#pragma once

#include "tensor/tensor.h"

namespace minicpm {

struct Stage {
  const char* name;  // e.g. "vit.layer"; static storage
  int layer = -1;    // 0-based, -1 = the stage is not per layer
  int item = -1;     // view index for vision stages, -1 otherwise
};

// Threads: called from the thread that drives the model, never from pool threads. Lifetime: the view is valid during
// the call.
class Tap {
 public:
  virtual ~Tap() = default;
  virtual void OnStage(const Stage& stage, ConstMatrix value) = 0;  // [rows, cols] f32
};

}  // namespace minicpm
