// OverlayRecorder: the frames that came, with the newest answer written on them, as a video. Not for containers or
// codecs (video/video_writer.h) or for drawing (image/draw_text.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "image/draw_text.h"
#include "video/live_source.h"
#include "video/video_writer.h"

namespace minicpm::cli {

// Threads: every method from any thread.
class OverlayRecorder {
 public:
  struct Options {
    double fps = 10;
    bool evenly = false;  // each frame for 1 / fps seconds, whatever its time (pictures of a folder)
    std::function<Result<std::unique_ptr<VideoWriter>>(const VideoWriterOptions&)> open;  // at the first frame
    std::function<void(const std::string&)> warn;
  };
  OverlayRecorder(std::unique_ptr<TextDrawer> drawer, Options options);

  // What stands on the frames from now on; an alert is drawn on red.
  void SetCaption(std::string text, bool alert);
  // Frames of another size than the first one's are fitted into that. Errors: the video cannot be begun. When writing
  // fails later, a warning says so, what there is becomes the video, and the watching goes on.
  Status Add(const LiveFrame& frame);
  // Errors: the video is not complete, or not there.
  Status Finish();

 private:
  Status Open(const LiveFrame& frame);

  std::mutex mutex_;
  const std::unique_ptr<TextDrawer> drawer_;
  const Options options_;
  std::unique_ptr<VideoWriter> writer_;
  std::optional<Error> failure_;
  std::string caption_;
  bool alert_ = false;
  int width_ = 0;
  int height_ = 0;
  double first_s_ = 0;
  double last_s_ = 0;
  int64_t n_frames_ = 0;
};

// `image` made to fit into width x height, centred on black.
Image FitImage(const Image& image, int width, int height);

}  // namespace minicpm::cli
