// The command line of `minicpm watch` and what it means for source, loop and session. Not for doing it (watch.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/session.h"
#include "media_loader.h"
#include "options.h"
#include "video/live_source.h"
#include "watch_loop.h"

namespace CLI {
class App;
}

namespace minicpm::cli {

// As given on the command line; empty = not given.
struct WatchFlags {
  std::string model;
  std::string prompt;
  std::string source;
  bool every_frame = false;
  bool no_follow = false;
  std::optional<double> every_s;
  std::optional<double> on_change;
  std::optional<int64_t> max_answers;
  std::optional<double> stop_after_s;
  std::optional<double> reconnect_for_s;
  std::optional<std::string> alert_if;
  bool alert_every = false;
  std::optional<std::string> exec;
  std::optional<double> exec_timeout_s;
  std::optional<std::string> save_video;
  std::optional<std::string> font;
  std::optional<int64_t> noise_threshold;
  bool no_reuse = false;
  MediaFlags media;  // the plugin only
  GenerationFlags generation;
};

// Binds the options to `flags`, which outlives the parsing; sets watch's own defaults (greedy, 128 tokens).
void AddWatchOptions(CLI::App& app, WatchFlags& flags);

// Combinations that a single option's check cannot see. Errors: kInvalidArgument, one sentence.
Status CheckWatchFlags(const WatchFlags& flags);

// "camera", "camera:1", "/dev/video0", "rtsp://...": opened again when it breaks; a file or folder is not.
bool IsDevice(const std::string& source);

LiveOptions ResolveLive(const WatchFlags& flags);
SessionOptions ResolveSession(const WatchFlags& flags);
// Everything but the alert and the clock.
WatchRules ResolveRules(const WatchFlags& flags);

}  // namespace minicpm::cli
