// An audio Job of the native backend, and its live sounds: log-mel frames through the encoder and the projector.
// Used by native_backend.cc only.
#pragma once

#include <map>
#include <memory>

#include "backends/backend.h"
#include "backends/native/native_model.h"
#include "ops/compute.h"

namespace minicpm {

// Live sounds by number. Threads: one user.
class NativeAudioStreams {
 public:
  // Requires: the model hears. Lifetime: `config` outlives it.
  AudioStreamId New(const AudioConfig& config);
  // Null for a number that is not in use.
  WhisperCache* Find(AudioStreamId stream);
  void Drop(AudioStreamId stream) { caches_.erase(stream); }

 private:
  std::map<AudioStreamId, WhisperCache> caches_;
  AudioStreamId next_ = 0;
};

// Errors: kUnsupported when the model does not hear; kInvalidArgument for a stream that does not exist, too many
// frames, nothing left after the cut, or another number of rows than that gives.
// Lifetime: model, compute and the stream outlive the Job.
Result<std::unique_ptr<Job>> NewAudioJob(const NativeModel& model, Compute& compute, NativeAudioStreams& streams,
                                         const AudioRequest& request);

}  // namespace minicpm
