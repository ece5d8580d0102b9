// Implementation of media_loader.h.
#include "media_loader.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "arguments.h"
#include "os/memory_file.h"

namespace minicpm::cli {
namespace {

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

void AddFiles(CLI::App& app, const std::string& name, MediaType type, const std::string& help, MediaFlags& flags) {
  AddTextEach(
      app, name, [&flags, type](const std::string& path) { flags.files.push_back({type, path}); }, help, "FILE");
}

AudioLimits SoundLimits(const MediaFlags& flags) {
  AudioLimits limits;
  if (flags.max_audio_seconds.has_value()) limits.max_seconds = *flags.max_audio_seconds;
  return limits;
}

std::string Format(const char* format, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

void AddMediaOptions(CLI::App& app, MediaFlags& flags, const std::string& of_what) {
  const std::string several = " " + of_what + "; may be given several times";
  AddFiles(app, "--image", MediaType::kImage, "a picture" + several, flags);
  AddFiles(app, "--audio", MediaType::kAudio, "sound" + several + " (o 4.5)", flags);
  AddFiles(app, "--video", MediaType::kVideo, "a video" + several, flags);
  AddVideoOptions(app, flags);
}

void AddVideoOptions(CLI::App& app, MediaFlags& f) {
  AddNumber(app, "--max-video-seconds", f.max_video_seconds, 0.1, 1e6, "look at the first X seconds of a video only");
  AddNumber(app, "--max-audio-seconds", f.max_audio_seconds, 0.1, 1e6, "refuse sound longer than this (default 3600)");
  AddNumber(app, "--video-fps", f.video_fps, 0.01, 1000, "V 4.5: frames per second to look at (default 3)");
  AddInteger(app, "--video-frames", f.video_frames, 1, 4096,
             "frames of a video at most (default: 64 for V 2.6 and o 4.5, 180 groups for V 4.5)");
  AddInteger(app, "--video-packing", f.video_packing, 1, 6,
             "V 4.5: frames that share one set of tokens (default: as many as needed, at most 3)");
  AddInteger(app, "--stack-frames", f.stack_frames, 1, 16,
             "o 4.5: N > 1 adds for each second one picture composed of N - 1 frames in between (default 1)");
  AddFlag(app, "--no-video-sound", f.no_video_sound, "o 4.5: look at the frames only");
  AddOptionalText(app, "--media-plugin", f.media_plugin,
                  "the library for formats that this program does not read itself (default: looked for beside the "
                  "program and in ../lib/minicpm)",
                  "FILE");
}

VideoChoiceOptions ResolveVideoChoice(const MediaFlags& f) {
  VideoChoiceOptions o;
  o.fps = f.video_fps;
  if (f.video_frames.has_value()) o.max_frames = static_cast<int>(*f.video_frames);
  if (f.video_packing.has_value()) o.packing = static_cast<int>(*f.video_packing);
  if (f.stack_frames.has_value()) o.stack = static_cast<int>(*f.stack_frames);
  return o;
}

Result<std::shared_ptr<const MediaPlugin>> MediaLoader::Plugin() {
  if (!looked_for_plugin_) {
    if (flags_.media_plugin.has_value()) {
      MINICPM_ASSIGN(plugin_, MediaPlugin::Load(*flags_.media_plugin));
    } else {
      MINICPM_ASSIGN(plugin_, MediaPlugin::Find());
    }
    looked_for_plugin_ = true;
  }
  return plugin_;
}

Result<MessagePart> MediaLoader::Load(MediaType type, const MediaSource& source, const std::string& name) {
  if (type == MediaType::kAudio) return LoadAudioPart(source, name);
  if (type == MediaType::kVideo) return LoadVideoPart(source, name);
  MessagePart part;
  if (!source.path.empty()) {
    MINICPM_ASSIGN(part.image, LoadImageInput(source.path));
  } else {
    MINICPM_ASSIGN(Image image, DecodeImage(source.bytes, name));
    part.image = MakeImageInput(name, std::move(image));
  }
  return part;
}

Result<MessagePart> MediaLoader::LoadAudioPart(const MediaSource& source, const std::string& name) {
  const AudioLimits limits = SoundLimits(flags_);
  MessagePart part;
  if (source.path.empty()) {
    auto samples = DecodeAudio(source.bytes, name, limits);
    if (samples.has_value() || samples.error().code != ErrorCode::kUnsupported) {
      if (!samples.has_value()) return std::unexpected(std::move(samples).error());
      part.audio = MakeAudioInput(name, std::move(*samples));
      return part;
    }
  }
  MINICPM_ASSIGN(const auto plugin, Plugin());
  std::optional<MemoryFile> memory;
  if (source.path.empty()) {
    MINICPM_ASSIGN(memory, MemoryFile::Create(source.bytes));
  }
  const std::string& path = memory.has_value() ? memory->path() : source.path;
  MINICPM_ASSIGN(auto samples, LoadSound(path, plugin.get(), limits));
  if (!samples.has_value()) {
    return Fail(ErrorCode::kUnsupported,
                Printable(name, 400) + ": expected sound, found a video without a sound track");
  }
  part.audio = MakeAudioInput(name, std::move(*samples));
  return part;
}

Result<MessagePart> MediaLoader::LoadVideoPart(const MediaSource& source, const std::string& name) {
  VideoInputOptions options;
  MINICPM_ASSIGN(options.plugin, Plugin());
  options.limits.sound = SoundLimits(flags_);
  options.max_seconds = flags_.max_video_seconds;
  options.with_sound = !flags_.no_video_sound;
  MessagePart part;
  if (!source.path.empty()) {
    MINICPM_ASSIGN(part.video, LoadVideoInput(source.path, options));
    return part;
  }
  MINICPM_ASSIGN(MemoryFile memory, MemoryFile::Create(source.bytes));
  const auto file = std::make_shared<const MemoryFile>(std::move(memory));
  MINICPM_ASSIGN(const auto video, LoadVideoInput(file->path(), options));
  // The bytes live as long as somebody may read them.
  auto held = std::make_shared<VideoInput>(*video);
  held->name = name;
  held->open = [file, open = video->open] { return open(); };
  held->load_sound = [file, load = video->load_sound] { return load(); };
  part.video = std::move(held);
  return part;
}

Result<AddressedMedia> MediaLoader::LoadFile(MediaType type, const std::string& path) {
  MINICPM_ASSIGN(MessagePart part, Load(type, MediaSource{path, {}}, path));
  return AddressedMedia{std::move(part), Absolute(path)};
}

const char* KindName(const MessagePart& part) {
  return part.image != nullptr ? "picture" : part.audio != nullptr ? "sound" : "video";
}

const std::string& NameOfMedium(const MessagePart& part) {
  return part.image != nullptr ? part.image->name : part.audio != nullptr ? part.audio->name : part.video->name;
}

std::string Describe(const MessagePart& part) {
  if (part.image != nullptr) {
    return Format("a picture of %d x %d pixels", part.image->image.width, part.image->image.height);
  }
  if (part.audio != nullptr) {
    return Format("%.1f s of sound", static_cast<double>(part.audio->samples.size()) / kAudioSampleRate);
  }
  const VideoInfo& info = part.video->info;
  return Format("a video of %.1f s, %d x %d%s", info.duration_s, info.width, info.height,
                info.has_sound ? ", with sound" : "");
}

}  // namespace minicpm::cli
