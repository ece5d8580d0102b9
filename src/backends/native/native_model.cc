// Implementation of native_model.h: the same Visit functions serve loading and listing.
#include "backends/native/native_model.h"

namespace minicpm {
namespace {

Status VisitAudio(const ModelConfig& config, TensorVisitor& v, WhisperWeights& tower,
                  AudioProjectorWeights& projector) {
  MINICPM_TRY(VisitWhisper(*config.audio, "apm.", v, tower));
  return VisitAudioProjector(*config.audio, config.decoder.n_embed, "audio_projection_layer.", v, projector);
}

// V 4.6 has the names that transformers gives them, the other families those of their own code.
struct Prefixes {
  const char* vision;
  const char* language;
};
Prefixes PrefixesOf(const ModelConfig& config) {
  if (config.merger.has_value()) return {"model.vision_tower.", "model.language_model."};
  return {"vpm.", "llm."};
}

}  // namespace

Result<std::shared_ptr<const NativeModel>> NativeModel::Load(const ModelConfig& config,
                                                             std::shared_ptr<const Checkpoint> checkpoint) {
  std::shared_ptr<NativeModel> model(new NativeModel());
  model->config_ = config;
  model->checkpoint_ = std::move(checkpoint);
  CheckpointLoader loader(*model->checkpoint_);
  const Prefixes prefixes = PrefixesOf(config);
  MINICPM_TRY(VisitSiglip(config.vision, prefixes.vision, loader, model->vision_));
  if (config.merger.has_value()) {
    MINICPM_TRY(VisitMerger(*config.merger, "model.merger.mlp.0.", loader, model->merger_));
  } else {
    MINICPM_TRY(VisitResampler(config.resampler, "resampler.", loader, model->resampler_));
  }
  if (config.audio.has_value()) MINICPM_TRY(VisitAudio(config, loader, model->audio_, model->audio_projector_));
  MINICPM_TRY(VisitDecoder(config.decoder, prefixes.language, loader, model->decoder_));
  return model;
}

std::vector<PartListing> ListTensors(const ModelConfig& config) {
  std::vector<PartListing> parts;
  const Prefixes prefixes = PrefixesOf(config);
  const auto add = [&parts](const char* part, auto&& visit) {
    TensorLister lister;
    MINICPM_CHECK(visit(lister).has_value());
    parts.push_back({part, lister.specs()});
  };
  add("vision", [&](TensorVisitor& v) {
    SiglipWeights w;
    return VisitSiglip(config.vision, prefixes.vision, v, w);
  });
  if (config.merger.has_value()) {
    add("merger", [&](TensorVisitor& v) {
      MergerWeights w;
      return VisitMerger(*config.merger, "model.merger.mlp.0.", v, w);
    });
  } else {
    add("resampler", [&](TensorVisitor& v) {
      ResamplerWeights w;
      return VisitResampler(config.resampler, "resampler.", v, w);
    });
  }
  if (config.audio.has_value()) {
    add("audio", [&](TensorVisitor& v) {
      WhisperWeights tower;
      AudioProjectorWeights projector;
      return VisitAudio(config, v, tower, projector);
    });
  }
  add("language", [&](TensorVisitor& v) {
    DecoderWeights w;
    return VisitDecoder(config.decoder, prefixes.language, v, w);
  });
  return parts;
}

}  // namespace minicpm
