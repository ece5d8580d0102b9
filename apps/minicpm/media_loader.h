// The options that say how pictures, sound and videos come in, and the loading itself, the same for every subcommand.
// Not for addresses (media_source.h) or decoding (src/image, src/audio, src/video).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/prompt.h"
#include "media_source.h"

namespace CLI {
class App;
}

namespace minicpm::cli {

enum class MediaType { kImage, kAudio, kVideo };

// A medium with the address it was loaded from, for writing a conversation down again.
struct AddressedMedia {
  MessagePart part;
  std::string url;
};

// As given on the command line; empty = not given.
struct MediaFlags {
  struct File {
    MediaType type;
    std::string path;
  };
  std::vector<File> files;  // --image, --audio, --video in the order given
  std::optional<double> video_fps;
  std::optional<int64_t> video_frames;
  std::optional<int64_t> video_packing;
  std::optional<int64_t> stack_frames;
  std::optional<double> max_video_seconds;
  std::optional<double> max_audio_seconds;
  bool no_video_sound = false;
  std::optional<std::string> media_plugin;
};

// --image, --audio and --video with `of_what` in their help ("for the question"), and the options about videos. Binds
// them to `flags`, which outlives the parsing.
void AddMediaOptions(CLI::App& app, MediaFlags& flags, const std::string& of_what);
void AddVideoOptions(CLI::App& app, MediaFlags& flags);
VideoChoiceOptions ResolveVideoChoice(const MediaFlags& flags);

// Loads media; finds the plugin for foreign formats when the first of them comes. Lifetime: `flags` outlives this.
class MediaLoader {
 public:
  explicit MediaLoader(const MediaFlags& flags) : flags_(flags) {}

  // `name` stands in messages for a medium that has no path.
  Result<MessagePart> Load(MediaType type, const MediaSource& source, const std::string& name);
  // From the command line; its address becomes the absolute path.
  Result<AddressedMedia> LoadFile(MediaType type, const std::string& path);
  // Null: not there. Errors: --media-plugin names a file that cannot be loaded.
  Result<std::shared_ptr<const MediaPlugin>> Plugin();

 private:
  Result<MessagePart> LoadAudioPart(const MediaSource& source, const std::string& name);
  Result<MessagePart> LoadVideoPart(const MediaSource& source, const std::string& name);

  const MediaFlags& flags_;
  bool looked_for_plugin_ = false;
  std::shared_ptr<const MediaPlugin> plugin_;
};

// "a picture of 640 x 480 pixels", "2.5 s of sound", "a video of 12.0 s, 640 x 480": for people.
std::string Describe(const MessagePart& part);
// "picture", "sound", "video".
const char* KindName(const MessagePart& part);
const std::string& NameOfMedium(const MessagePart& part);

}  // namespace minicpm::cli
