// MediaPlugin: the optional library that reads everything this program does not read itself (FFmpeg behind a C
// interface), found and loaded at run time. Not for what it decodes: see video.h, live_source.h, video_writer.h.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace minicpm {

// Threads: const methods from any number of threads. Lifetime: outlives every reader and writer made with it.
class MediaPlugin {
 public:
  // Errors: kNotFound when there is no such file, kUnsupported for one of another interface version (found, needed).
  static Result<std::shared_ptr<const MediaPlugin>> Load(const std::string& path);
  // Looks for the plugin's file in the program's own folder and in ../lib/minicpm beside it; null when it is not there.
  static Result<std::shared_ptr<const MediaPlugin>> Find();
  ~MediaPlugin();

  // "FFmpeg 5.1.6, libavformat 59.27.100", for people.
  const std::string& description() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit MediaPlugin(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
