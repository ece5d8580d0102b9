// What messages hold besides text: pictures, sound and videos, loaded and with an identity. Not for what a model makes
// of them (prompt.h, media_encoder.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "audio/audio.h"
#include "base/status.h"
#include "image/image.h"
#include "video/video.h"

namespace minicpm {

// A decoded picture with its identity. Shared between a conversation's prompts.
struct ImageInput {
  std::string name;  // for messages
  Image image;
  std::array<uint8_t, 32> digest;  // SHA-256 of size and pixels
};
Result<std::shared_ptr<const ImageInput>> LoadImageInput(const std::string& path, const ImageLimits& limits = {});
std::shared_ptr<const ImageInput> MakeImageInput(std::string name, Image image);

// Sound at 16 kHz with its identity.
struct AudioInput {
  std::string name;
  Samples samples;
  std::array<uint8_t, 32> digest;  // SHA-256 of the samples
};
std::shared_ptr<const AudioInput> MakeAudioInput(std::string name, Samples samples);

// A video whose frames are read when they are needed, and not kept. Its identity is this object: hand the same one to
// every prompt of a conversation.
struct VideoInput {
  std::string name;
  VideoInfo info;  // as far as it is looked at: n_frames and duration_s may have been shortened
  std::function<Result<std::unique_ptr<VideoReader>>()> open;
  std::function<Result<std::optional<Samples>>()> load_sound;
  std::shared_ptr<const AudioInput> sound;  // null: none, or not loaded (LoadVideoSound)
};

struct VideoInputOptions {
  std::shared_ptr<const MediaPlugin> plugin;  // may be null
  VideoLimits limits;
  std::optional<double> max_seconds;  // what comes later is not looked at
  bool with_sound = true;             // false: LoadVideoSound leaves it silent
};
Result<std::shared_ptr<const VideoInput>> LoadVideoInput(const std::string& path, const VideoInputOptions& options);

// The same video with its sound track decoded, for models that hear; itself when it has none or holds it already.
Result<std::shared_ptr<const VideoInput>> LoadVideoSound(std::shared_ptr<const VideoInput> video);

}  // namespace minicpm
