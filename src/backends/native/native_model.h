// NativeModel: a checkpoint's tensors bound to the towers' fields. Immutable and shared; the weights stay in the mapped
// files. Not a place for scratch or threads: those belong to NativeBackend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/blocks/model_config.h"
#include "models/decoder/decoder.h"
#include "models/projector/audio_projector.h"
#include "models/projector/merger.h"
#include "models/projector/resampler.h"
#include "models/siglip/siglip.h"
#include "models/whisper/whisper.h"
#include "store/checkpoint.h"

namespace minicpm {

// Threads: const after Load.
class NativeModel {
 public:
  // Errors: a tensor that is missing or has another dtype or shape than `config` asks for.
  static Result<std::shared_ptr<const NativeModel>> Load(const ModelConfig& config,
                                                         std::shared_ptr<const Checkpoint> checkpoint);

  const ModelConfig& config() const { return config_; }
  const SiglipWeights& vision() const { return vision_; }
  const ResamplerWeights& resampler() const { return resampler_; }  // empty where config().merger has a value
  const MergerWeights& merger() const { return merger_; }           // empty where it has none
  const DecoderWeights& decoder() const { return decoder_; }
  // Empty unless config().audio has a value.
  const WhisperWeights& audio() const { return audio_; }
  const AudioProjectorWeights& audio_projector() const { return audio_projector_; }

 private:
  NativeModel() = default;
  ModelConfig config_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  SiglipWeights vision_;
  ResamplerWeights resampler_;
  MergerWeights merger_;
  DecoderWeights decoder_;
  WhisperWeights audio_;
  AudioProjectorWeights audio_projector_;
};

// Which part of the model a tensor belongs to, for reports.
struct PartListing {
  const char* part;  // "vision", "resampler" or "merger", "audio", "language"
  std::vector<TensorSpec> tensors;
};
// Everything the native engine reads for this configuration.
std::vector<PartListing> ListTensors(const ModelConfig& config);

}  // namespace minicpm
