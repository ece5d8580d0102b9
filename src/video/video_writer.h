// Frames -> a video file: MJPEG in AVI by this program itself, everything else by the plugin. Not for drawing on frames
// (image/draw_text.h).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "image/image.h"
#include "video/media_plugin.h"

namespace minicpm {

struct VideoWriterOptions {
  int width = 0;  // of every frame; odd sizes are padded by the writer where a codec needs even ones
  int height = 0;
  double fps = 10;
};

// Writes beside `path` and renames at Finish; a writer that is dropped before leaves no file under the final name.
class VideoWriter {
 public:
  virtual ~VideoWriter() = default;
  // `time_s` counts from the first frame and must not fall; frames are shown from their time on.
  virtual Status Write(const Image& frame, double time_s) = 0;
  virtual Status Finish() = 0;
};

// The container follows the name's ending: .avi without plugin; .mp4, .mkv, .mov with it.
Result<std::unique_ptr<VideoWriter>> OpenVideoWriter(const std::string& path, const VideoWriterOptions& options,
                                                     const MediaPlugin* plugin);

}  // namespace minicpm
