// Which writer a name gets, and the plugin's writer. Not for the AVI container (avi_writer.h).
#include "video/video_writer.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <utility>

#include "video/avi_writer.h"
#include "video/media_plugin_impl.h"
#include "video/pending_file.h"

namespace minicpm {
namespace {

constexpr int kMaxSide = 16384;

class PluginWriter : public VideoWriter {
 public:
  PluginWriter(std::string name, const VideoWriterOptions& options, const MinicpmMediaApi* api, PendingFile pending)
      : name_(std::move(name)), options_(options), api_(api), pending_(std::move(pending)) {}
  ~PluginWriter() override { Close(); }
  PluginWriter(const PluginWriter&) = delete;
  PluginWriter& operator=(const PluginWriter&) = delete;

  Status Begin(const std::string& ending) {
    const MinicpmMediaWriterOptions plain = {.width = options_.width, .height = options_.height, .fps = options_.fps};
    MinicpmMediaError error = {};
    const int32_t code = api_->writer_open(pending_.temporary().c_str(), ending.c_str(), &plain, &writer_, &error);
    return Checked(code, error);
  }

  Status Write(const Image& frame, double time_s) override {
    if (frame.width != options_.width || frame.height != options_.height) {
      return Fail(ErrorCode::kInvalidArgument, name_ + ": a frame of " + std::to_string(frame.width) + " x " +
                                                   std::to_string(frame.height) + " pixels, the video has " +
                                                   std::to_string(options_.width) + " x " +
                                                   std::to_string(options_.height));
    }
    if (!(time_s >= last_time_) || !(time_s < 1e9)) {
      return Fail(ErrorCode::kInvalidArgument, name_ + ": a frame at " + std::to_string(time_s) + " s after one at " +
                                                   std::to_string(last_time_) + " s");
    }
    last_time_ = time_s;
    MinicpmMediaError error = {};
    MINICPM_TRY(Checked(api_->writer_write(writer_, frame.rgb.data(), time_s, &error), error));
    has_frames_ = true;
    return {};
  }

  Status Finish() override {
    if (!has_frames_) return Fail(ErrorCode::kInvalidArgument, name_ + ": a video without a single frame");
    MinicpmMediaError error = {};
    MINICPM_TRY(Checked(api_->writer_finish(writer_, &error), error));
    Close();
    return pending_.Commit();
  }

 private:
  Status Checked(int32_t code, const MinicpmMediaError& error) const {
    if (code != MINICPM_MEDIA_DONE) return PluginError(name_, code, error);
    return {};
  }
  void Close() {
    if (writer_ != nullptr) api_->writer_close(std::exchange(writer_, nullptr));
  }

  std::string name_;
  VideoWriterOptions options_;
  const MinicpmMediaApi* api_;
  PendingFile pending_;
  MinicpmMediaWriter* writer_ = nullptr;
  double last_time_ = 0;
  bool has_frames_ = false;
};

}  // namespace

Result<std::unique_ptr<VideoWriter>> OpenVideoWriter(const std::string& path, const VideoWriterOptions& options,
                                                     const MediaPlugin* plugin) {
  const std::string name = Printable(path, 300);
  if (options.width < 1 || options.height < 1 || options.width > kMaxSide || options.height > kMaxSide ||
      !(options.fps >= 0.01) || !(options.fps <= 1000)) {
    return Fail(ErrorCode::kInvalidArgument,
                name + ": a video of " + std::to_string(options.width) + " x " + std::to_string(options.height) +
                    " pixels and " + std::to_string(options.fps) +
                    " frames per second, expected sides of 1 to 16384 and 0.01 to 1000 frames");
  }
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  if (ending == ".avi") return OpenAviWriter(path, options);
  if (ending != ".mp4" && ending != ".mkv" && ending != ".mov") {
    return Fail(ErrorCode::kInvalidArgument,
                name + ": videos are written as .avi, .mp4, .mkv or .mov, found \"" + Printable(ending, 20) + "\"");
  }
  if (plugin == nullptr) {
    return Fail(ErrorCode::kUnsupported, name + ": writing " + ending + " needs the FFmpeg plugin, .avi does not");
  }
  MINICPM_ASSIGN(PendingFile pending, PendingFile::Create(path));
  auto writer = std::make_unique<PluginWriter>(name, options, plugin->impl().api, std::move(pending));
  MINICPM_TRY(writer->Begin(ending.substr(1)));
  return writer;
}

}  // namespace minicpm
