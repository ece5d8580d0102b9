// Implementation of native_model.h: the same Visit functions serve loading and listing.
#include "backends/native/native_model.h"

namespace minicpm {
namespace {

Status VisitAudio(const ModelConfig& config, TensorVisitor& v, WhisperWeights& tower,
                  AudioProjectorWeights& projector) {
  MINICPM_TRY(VisitWhisper(*config.audio, "apm.", v, tower));
  return VisitAudioProjector(*config.audio, config.decoder.n_embed, "audio_projection_layer.", v, projector);
}

}  // namespace

Result<std::shared_ptr<const NativeModel>> NativeModel::Load(const ModelConfig& config,
                                                             std::shared_ptr<const Checkpoint> checkpoint) {
  std::shared_ptr<NativeModel> model(new NativeModel());
  model->config_ = config;
  model->checkpoint_ = std::move(checkpoint);
  CheckpointLoader loader(*model->checkpoint_);
  MINICPM_TRY(VisitSiglip(config.vision, "vpm.", loader, model->vision_));
  MINICPM_TRY(VisitResampler(config.resampler, "resampler.", loader, model->resampler_));
  if (config.audio.has_value()) MINICPM_TRY(VisitAudio(config, loader, model->audio_, model->audio_projector_));
  MINICPM_TRY(VisitDecoder(config.decoder, "llm.", loader, model->decoder_));
  return model;
}

std::vector<PartListing> ListTensors(const ModelConfig& config) {
  std::vector<PartListing> parts;
  const auto add = [&parts](const char* part, auto&& visit) {
    TensorLister lister;
    MINICPM_CHECK(visit(lister).has_value());
    parts.push_back({part, lister.specs()});
  };
  add("vision", [&](TensorVisitor& v) {
    SiglipWeights w;
    return VisitSiglip(config.vision, "vpm.", v, w);
  });
  add("resampler", [&](TensorVisitor& v) {
    ResamplerWeights w;
    return VisitResampler(config.resampler, "resampler.", v, w);
  });
  if (config.audio.has_value()) {
    add("audio", [&](TensorVisitor& v) {
      WhisperWeights tower;
      AudioProjectorWeights projector;
      return VisitAudio(config, v, tower, projector);
    });
  }
  add("language", [&](TensorVisitor& v) {
    DecoderWeights w;
    return VisitDecoder(config.decoder, "llm.", v, w);
  });
  return parts;
}

}  // namespace minicpm
