// What the three kinds of live sources have in common: a producer that a reading thread asks for one frame after the
// other. Internal to this room; callers use live_source.h. Not for choosing which frames are kept.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "video/live_source.h"

namespace minicpm {

class LiveProducer {
 public:
  virtual ~LiveProducer() = default;
  // Waits for the next frame, and gives up soon after `stop` is set. nullopt: the end, or stopped.
  // Threads: called by the reading thread alone.
  virtual Result<std::optional<LiveFrame>> Produce(const std::atomic<bool>& stop) = 0;
  // Sentences gathered since the last call. Threads: as Produce.
  virtual std::vector<std::string> TakeWarnings() { return {}; }
  virtual double fps() const = 0;
};

Result<std::unique_ptr<LiveProducer>> OpenFileProducer(const std::string& path, const MediaPlugin* plugin,
                                                       const LiveOptions& options);
Result<std::unique_ptr<LiveProducer>> OpenFolderProducer(const std::string& path, const LiveOptions& options);
// A camera's /dev/video* path or an RTSP address.
Result<std::unique_ptr<LiveProducer>> OpenStreamProducer(const std::string& address, const MediaPlugin& plugin,
                                                         const LiveOptions& options);

// Sleeps in short pieces. False: stopped before.
bool SleepUnlessStopped(double seconds, const std::atomic<bool>& stop);

}  // namespace minicpm
