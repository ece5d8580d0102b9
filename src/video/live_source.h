// Sources without an end or with a pace of their own: cameras, network streams, files played at their speed, folders
// that fill. The newest frame wins: what nobody fetched in time is dropped. Not for reading a video from end to end
// (video.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "image/image.h"
#include "video/media_plugin.h"

namespace minicpm {

struct LiveFrame {
  int64_t number = 0;   // counted at the source, from 0, dropped ones included
  double time_s = 0;    // seconds since the first frame, by the source's clock (a file: its own timestamps)
  int64_t unix_ms = 0;  // wall clock when the frame arrived
  std::string name;     // folder: the file's name; else empty
  Image image;
};

struct LiveOptions {
  bool every_frame = false;  // files and folders only: drop nothing, wait instead (for tests and for checking a record)
  double poll_s = 0.2;       // folders: how often to look for new files
  const std::atomic<bool>* cancel = nullptr;  // looked at while a camera or stream opens; outlives the source
  double open_timeout_s = 10;                 // cameras and streams: how long to wait for the first frame
  double read_timeout_s = 10;                 // and for each next one
  bool follow = true;                         // folders: go on after the files that are there; false: then end
};

// Threads: Next by one user; a reading thread of its own runs behind it and ends with the object.
class LiveSource {
 public:
  virtual ~LiveSource() = default;
  // The newest frame that was not fetched yet; waits for one. nullopt: the source ended, or `cancel` was set (looked at
  // about ten times a second). Errors: the source broke (kIo, kCorrupt), one sentence naming it; it has ended then.
  virtual Result<std::optional<LiveFrame>> Next(const std::atomic<bool>* cancel) = 0;
  // What went wrong without ending the source, since the last call: a folder's file that stays broken, one sentence
  // each.
  virtual std::vector<std::string> TakeWarnings() { return {}; }
  // Frames that arrived so far, dropped ones included.
  virtual int64_t n_arrived() const = 0;
  // Average frames per second as the source says, 0 when it does not.
  virtual double fps() const = 0;
};

// `address`: "camera" or "camera:N" or a /dev/video* path (needs the plugin), an rtsp:// or rtsps:// address (plugin),
// a folder, or a file that OpenVideo reads.
Result<std::unique_ptr<LiveSource>> OpenLiveSource(const std::string& address, const MediaPlugin* plugin,
                                                   const LiveOptions& options);

}  // namespace minicpm
