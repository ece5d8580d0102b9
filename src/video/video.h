// A video file as timed frames and sound, whoever reads the container. Not for which frames a model looks at
// (frame_choice.h, temporal_ids.h) or for endless sources (live_source.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "audio/audio.h"
#include "base/status.h"
#include "image/image.h"
#include "video/media_plugin.h"

namespace minicpm {

struct VideoLimits {
  uint64_t max_pixels = 64'000'000;  // of one frame
  int64_t max_frames = 20'000'000;   // of the file
  AudioLimits sound;
};

struct VideoInfo {
  int width = 0;  // rotation applied; the shape of the pixels is ignored, as the models' own helpers (decord) do
  int height = 0;
  int64_t n_frames = 0;  // counted in the file, not taken from its header; >= 1
  double fps = 0;        // average: n_frames / duration
  double duration_s = 0;
  bool has_sound = false;
  std::string format;  // "y4m", "avi/mjpeg", "mov,mp4/h264", for people
};

// Threads: one user at a time.
class VideoReader {
 public:
  virtual ~VideoReader() = default;
  virtual const VideoInfo& info() const = 0;
  // Frame `index` in the order of presentation, decoded. Cheap when indices ascend; a smaller one than last time starts
  // again from a place before it. Requires: 0 <= index < n_frames. Errors: kCorrupt where the file is broken.
  virtual Result<Image> Frame(int64_t index) = 0;
  // When it is shown, in seconds from the first frame. Requires: as Frame.
  virtual double TimeOf(int64_t index) const { return static_cast<double>(index) / info().fps; }
};

// Uncompressed Y4M and MJPEG in AVI are read by this program itself; everything else needs the plugin (null: not
// there). Memory does not grow with the length, but for a few bytes of index per frame.
// Errors: one sentence that names the file; kUnsupported says when the plugin would be needed and how to get it.
Result<std::unique_ptr<VideoReader>> OpenVideo(const std::string& path, const MediaPlugin* plugin,
                                               const VideoLimits& limits = {});

// The sound of any file: LoadAudio's formats, AVI with PCM, and with the plugin whatever it reads.
// nullopt: a video without a sound track.
Result<std::optional<Samples>> LoadSound(const std::string& path, const MediaPlugin* plugin,
                                         const AudioLimits& limits = {});

}  // namespace minicpm
