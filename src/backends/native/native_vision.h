// A vision Job of the native backend: views through the encoder and the resampler, one piece at a time.
// Used by native_backend.cc only.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/native/native_model.h"
#include "ops/compute.h"

namespace minicpm {

// Errors: kInvalidArgument for shapes that do not fit the model. Lifetime: model and compute outlive the Job.
Result<std::unique_ptr<Job>> NewVisionJob(const NativeModel& model, Compute& compute, const VisionRequest& request);

}  // namespace minicpm
