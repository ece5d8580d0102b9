// OpenVideo and LoadSound: which reader a file gets, told by its content. Not for any container's details.
#include "video/video.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/check.h"
#include "video/avi.h"
#include "video/byte_source.h"
#include "video/media_plugin_impl.h"
#include "video/y4m.h"

namespace minicpm {
namespace {

constexpr const char* kHowToGetIt =
    "build it with the development packages of libavformat, libavcodec, libswscale, libswresample and libavdevice "
    "installed (tools/setup --media), it then lies beside the program";

class PluginReader : public VideoReader {
 public:
  PluginReader(const MinicpmMediaApi* api, MinicpmMediaVideo* video, const MinicpmMediaInfo& info, std::string name)
      : api_(api), video_(video), name_(std::move(name)) {
    info_.width = info.width;
    info_.height = info.height;
    info_.n_frames = info.n_frames;
    info_.fps = info.fps;
    info_.duration_s = info.duration_s;
    info_.has_sound = info.has_sound != 0;
    info_.format = Printable(info.format, sizeof info.format);
  }
  ~PluginReader() override { api_->video_close(video_); }
  PluginReader(const PluginReader&) = delete;
  PluginReader& operator=(const PluginReader&) = delete;

  const VideoInfo& info() const override { return info_; }
  Result<Image> Frame(int64_t index) override {
    MINICPM_CHECK(index >= 0 && index < info_.n_frames);
    Image image{info_.width, info_.height, std::vector<uint8_t>(size_t{3} * info_.width * info_.height)};
    MinicpmMediaError error = {};
    const int32_t code = api_->video_frame(video_, index, image.rgb.data(), &error);
    if (code != MINICPM_MEDIA_DONE) return PluginError(name_, code, error);
    return image;
  }
  double TimeOf(int64_t index) const override { return api_->video_time(video_, index); }

 private:
  const MinicpmMediaApi* api_;
  MinicpmMediaVideo* video_;
  std::string name_;
  VideoInfo info_;
};

Result<std::unique_ptr<VideoReader>> OpenWithPlugin(const std::string& path, const MediaPlugin& plugin,
                                                    const VideoLimits& limits) {
  const std::string name = Printable(path, 300);
  const MinicpmMediaApi* api = plugin.impl().api;
  const MinicpmMediaLimits plain = {.max_pixels = limits.max_pixels, .max_frames = limits.max_frames};
  MinicpmMediaVideo* video = nullptr;
  MinicpmMediaInfo info = {};
  MinicpmMediaError error = {};
  const int32_t code = api->video_open(path.c_str(), &plain, &video, &info, &error);
  if (code != MINICPM_MEDIA_DONE) return PluginError(name, code, error);
  auto reader = std::make_unique<PluginReader>(api, video, info, name);
  const VideoInfo& found = reader->info();
  if (found.width < 1 || found.height < 1 || found.n_frames < 1 || !(found.fps > 0) ||
      static_cast<uint64_t>(found.width) * static_cast<uint64_t>(found.height) > limits.max_pixels) {
    return Fail(ErrorCode::kCorrupt, name + ": the media plugin found no usable size, rate or number of frames");
  }
  return reader;
}

// What the plugin's sound goes through.
struct SoundTarget {
  std::string name;
  AudioLimits limits;
  std::optional<SoundConverter> converter;
  std::optional<Error> error;

  int32_t Begin(int32_t rate, int32_t channels) {
    auto made = SoundConverter::Create(rate, channels, name, limits);
    if (!made.has_value()) {
      error = std::move(made).error();
      return 1;
    }
    converter.emplace(std::move(made).value());
    return 0;
  }
  int32_t Push(std::span<const float> values) {
    if (auto status = converter->Push(values); !status.has_value()) {
      error = std::move(status).error();
      return 1;
    }
    return 0;
  }
};

Result<std::optional<Samples>> SoundWithPlugin(const std::string& path, const MediaPlugin& plugin,
                                               const AudioLimits& limits) {
  SoundTarget target{.name = path, .limits = limits, .converter = {}, .error = {}};
  const MinicpmMediaSoundSink sink = {
      .user = &target,
      .begin = [](void* user, int32_t rate,
                  int32_t channels) { return static_cast<SoundTarget*>(user)->Begin(rate, channels); },
      .push = [](void* user, const float* values,
                 uint64_t n) { return static_cast<SoundTarget*>(user)->Push({values, static_cast<size_t>(n)}); }};
  MinicpmMediaError error = {};
  const int32_t code = plugin.impl().api->sound_read(path.c_str(), &sink, &error);
  if (target.error.has_value()) return std::unexpected<Error>(std::move(*target.error));
  if (code == MINICPM_MEDIA_END) return std::nullopt;
  if (code != MINICPM_MEDIA_DONE) return PluginError(Printable(path, 300), code, error);
  if (!target.converter.has_value()) return Samples{};
  MINICPM_ASSIGN(Samples samples, target.converter->Finish());
  return samples;
}

struct Opened {
  std::unique_ptr<ByteSource> source;
  std::array<std::byte, 16> head{};
};

Result<Opened> Open(const std::string& path) {
  Opened opened;
  MINICPM_ASSIGN(opened.source, OpenFileSource(path));
  const size_t n = std::min<uint64_t>(opened.head.size(), opened.source->size());
  if (n == 0) return Fail(ErrorCode::kCorrupt, opened.source->name() + ": the file is empty");
  MINICPM_TRY(opened.source->ReadAt(0, std::span(opened.head).first(n)));
  return opened;
}

Result<std::unique_ptr<VideoReader>> OpenAny(const std::string& path, const MediaPlugin* plugin,
                                             const VideoLimits& limits) {
  MINICPM_ASSIGN(Opened file, Open(path));
  if (LooksLikeY4m(file.head)) {
    auto reader = OpenY4m(std::move(file.source), limits);
    if (reader.has_value() || reader.error().code != ErrorCode::kUnsupported || plugin == nullptr) return reader;
  }
  if (LooksLikeAvi(file.head)) {
    auto reader = OpenAvi(std::move(file.source), limits);
    if (reader.has_value() || reader.error().code != ErrorCode::kUnsupported || plugin == nullptr) return reader;
  }
  if (plugin != nullptr) return OpenWithPlugin(path, *plugin, limits);
  return Fail(ErrorCode::kUnsupported,
              Printable(path, 300) +
                  ": neither a Y4M nor an MJPEG AVI video; other formats need the FFmpeg plugin: " + kHowToGetIt);
}

Result<std::optional<Samples>> SoundOfAny(const std::string& path, const MediaPlugin* plugin,
                                          const AudioLimits& limits) {
  MINICPM_ASSIGN(const Opened file, Open(path));
  if (LooksLikeY4m(file.head)) return std::nullopt;
  if (LooksLikeAvi(file.head)) {
    auto track = LoadAviSound(*file.source, limits);
    if (track.has_value() || track.error().code != ErrorCode::kUnsupported || plugin == nullptr) return track;
    return SoundWithPlugin(path, *plugin, limits);
  }
  // Whole films are not read into memory to find out that they are none of LoadAudio's formats.
  constexpr uint64_t kEnoughToTell = 64 << 10;
  std::vector<std::byte> begin(static_cast<size_t>(std::min(kEnoughToTell, file.source->size())));
  MINICPM_TRY(file.source->ReadAt(0, begin));
  if (plugin != nullptr && !IsSoundFile(begin)) return SoundWithPlugin(path, *plugin, limits);
  auto samples = LoadAudio(path, limits);
  if (samples.has_value()) return std::move(samples).value();
  if (samples.error().code != ErrorCode::kUnsupported) return std::unexpected<Error>(std::move(samples).error());
  if (plugin != nullptr) return SoundWithPlugin(path, *plugin, limits);
  return Fail(ErrorCode::kUnsupported,
              samples.error().message + "; other formats need the FFmpeg plugin: " + kHowToGetIt);
}

std::unexpected<Error> OutOfMemory(const std::string& path) {
  return Fail(ErrorCode::kResourceExhausted, Printable(path, 300) + ": not enough memory for this video or sound");
}

}  // namespace

Result<std::unique_ptr<VideoReader>> OpenVideo(const std::string& path, const MediaPlugin* plugin,
                                               const VideoLimits& limits) {
  try {
    return OpenAny(path, plugin, limits);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(path);
  }
}

Result<std::optional<Samples>> LoadSound(const std::string& path, const MediaPlugin* plugin,
                                         const AudioLimits& limits) {
  try {
    return SoundOfAny(path, plugin, limits);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(path);
  }
}

}  // namespace minicpm
