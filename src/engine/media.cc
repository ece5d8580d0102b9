// Implementation of media.h.
#include "engine/media.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/digest.h"

namespace minicpm {

std::shared_ptr<const ImageInput> MakeImageInput(std::string name, Image image) {
  auto input = std::make_shared<ImageInput>();
  input->name = std::move(name);
  input->image = std::move(image);
  Sha256 hash;
  const int32_t size[2] = {input->image.width, input->image.height};
  hash.Update(std::as_bytes(std::span(size)));
  hash.Update(std::as_bytes(std::span(input->image.rgb)));
  input->digest = hash.Finish();
  return input;
}

Result<std::shared_ptr<const ImageInput>> LoadImageInput(const std::string& path, const ImageLimits& limits) {
  MINICPM_ASSIGN(Image image, LoadImage(path, limits));
  return MakeImageInput(path, std::move(image));
}

std::shared_ptr<const AudioInput> MakeAudioInput(std::string name, Samples samples) {
  auto input = std::make_shared<AudioInput>();
  input->name = std::move(name);
  input->samples = std::move(samples);
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(input->samples)));
  input->digest = hash.Finish();
  return input;
}

Result<std::shared_ptr<const VideoInput>> LoadVideoInput(const std::string& path, const VideoInputOptions& options) {
  MINICPM_ASSIGN(const auto reader, OpenVideo(path, options.plugin.get(), options.limits));
  auto input = std::make_shared<VideoInput>();
  input->name = path;
  input->info = reader->info();
  const std::optional<double> limit = options.max_seconds;
  if (limit.has_value() && input->info.duration_s > *limit) {
    const double frames = std::ceil(*limit * input->info.fps);
    input->info.n_frames = std::clamp<int64_t>(static_cast<int64_t>(frames), 1, input->info.n_frames);
    input->info.duration_s = *limit;
  }
  input->open = [path, options] { return OpenVideo(path, options.plugin.get(), options.limits); };
  if (!options.with_sound) input->info.has_sound = false;
  input->load_sound = [path, options] {
    AudioLimits sound = options.limits.sound;
    sound.keep_seconds = options.max_seconds.value_or(0);
    return LoadSound(path, options.plugin.get(), sound);
  };
  return input;
}

Result<std::shared_ptr<const VideoInput>> LoadVideoSound(std::shared_ptr<const VideoInput> video) {
  if (!video->info.has_sound || video->sound != nullptr || video->load_sound == nullptr) return video;
  MINICPM_ASSIGN(auto samples, video->load_sound());
  if (!samples.has_value()) return video;
  auto loud = std::make_shared<VideoInput>(*video);
  loud->sound = MakeAudioInput(video->name, std::move(*samples));
  return loud;
}

}  // namespace minicpm
