// Implementation of watch_options.h.
#include "watch_options.h"

#include <CLI/CLI.hpp>

#include "arguments.h"
#include "interrupt.h"

namespace minicpm::cli {
namespace {

constexpr int64_t kMaxNewTokens = 128;
constexpr double kYear_s = 366.0 * 24 * 3600;

void AddSourceOptions(CLI::App& app, WatchFlags& f) {
  AddText(
      app, "--source", f.source,
      "what to watch: camera, camera:N or /dev/videoN; an rtsp:// address; a video file, played at its own speed; a "
      "folder that pictures are put into",
      "SOURCE")
      ->required();
  AddNumber(app, "--every", f.every_s, 0.001, kYear_s, "ask about at most one frame in X seconds of the source's time");
  AddFlag(app, "--every-frame", f.every_frame,
          "files and folders: wait for the model instead of dropping frames, so that every frame is looked at");
  AddNumber(app, "--on-change", f.on_change, 0, 255,
            "ask only when the picture differs from the last one that was answered: when the largest difference of "
            "brightness among its 32 x 32 cells is above X (0 to 255; each answer's line shows it as \"change\")");
  AddFlag(app, "--no-follow", f.no_follow,
          "folders: end after the pictures that are there, instead of waiting for more");
  AddInteger(app, "--max-answers", f.max_answers, 1, int64_t{1} << 53, "end after N answers");
  AddNumber(app, "--stop-after", f.stop_after_s, 0.001, 100 * kYear_s, "end after X seconds of the source's time");
  AddNumber(app, "--reconnect-for", f.reconnect_for_s, 0, 100 * kYear_s,
            "cameras and streams: give up when no frame came for X seconds (default: try for ever)");
}

void AddAlertOptions(CLI::App& app, WatchFlags& f) {
  AddOptionalText(app, "--alert-if", f.alert_if,
                  "an answer is an alert when this regular expression (PCRE2) is found in it; (?i) at its beginning "
                  "ignores case",
                  "REGEX");
  AddOptionalText(app, "--exec", f.exec,
                  "run this shell command when alerts begin; it gets the JSON line on stdin and MINICPM_ALERT_TEXT, "
                  "_FRAME, _TIME, _SOURCE_TIME_S, _ANSWER, _FILE and _SOURCE in its environment",
                  "COMMAND");
  AddFlag(app, "--alert-every", f.alert_every, "raise the alarm at every alert, not only where alerts begin");
  AddNumber(app, "--exec-timeout", f.exec_timeout_s, 0.1, 24 * 3600, "kill the command after X seconds (default: 30)");
}

void AddVideoOutOptions(CLI::App& app, WatchFlags& f) {
  AddOptionalText(app, "--save-video", f.save_video,
                  "write the frames with the newest answer drawn on them to this file: .avi (Motion JPEG), or with the "
                  "media plugin .mp4, .mkv, .mov",
                  "FILE");
  AddOptionalText(app, "--font", f.font,
                  "draw with this TrueType or OpenType font (default: installed fonts that have the characters)",
                  "FILE");
}

void AddReuseOptions(CLI::App& app, WatchFlags& f) {
  AddFlag(app, "--no-reuse", f.no_reuse,
          "encode every slice of every picture, also those whose pixels did not change since the answer before; the "
          "answers are the same");
  AddInteger(
      app, "--noise-threshold", f.noise_threshold, 1, 255,
      "a slice also counts as unchanged when no value of a pixel differs by more than N; then answers may differ "
      "(default: off, exactly equal pixels only)");
  AddOptionalText(
      app, "--media-plugin", f.media.media_plugin,
      "the library for cameras, streams and formats that this program does not read itself (default: looked "
      "for beside the program and in ../lib/minicpm)",
      "FILE");
}

}  // namespace

void AddWatchOptions(CLI::App& app, WatchFlags& flags) {
  AddText(app, "MODEL", flags.model, "folder of an official checkpoint, or a bundle", "")->required();
  AddText(app, "-p,--prompt", flags.prompt, "the question about each frame", "TEXT")->required();
  AddSourceOptions(app, flags);
  AddAlertOptions(app, flags);
  AddVideoOutOptions(app, flags);
  AddReuseOptions(app, flags);
  AddGenerationOptions(app, flags.generation);
  flags.generation.max_new_tokens = kMaxNewTokens;
  flags.generation.temperature = 0;
  app.get_option("--max-new-tokens")->description("stop after N tokens (default: 128)");
  app.get_option("--temperature")
      ->description("0 = greedy: always the most likely token, so that equal pictures get equal answers (default: 0)");
  app.get_option("--seed")->description("same seed, same answer to the same picture (default: a new one each time)");
}

Status CheckWatchFlags(const WatchFlags& f) {
  const auto usage = [](const std::string& text) { return Fail(ErrorCode::kInvalidArgument, text); };
  if (f.prompt.empty()) return usage("-p: expected a question, found an empty text");
  if (f.source.empty())
    return usage("--source: expected a camera, an address, a file or a folder, found an empty text");
  if (f.every_frame && IsDevice(f.source)) {
    return usage(
        "--every-frame: expected a file or a folder as --source, found a camera or stream, which does not wait");
  }
  if (f.reconnect_for_s.has_value() && !IsDevice(f.source)) {
    return usage("--reconnect-for: expected a camera or stream as --source, found a file or folder");
  }
  if (f.exec.has_value() && !f.alert_if.has_value()) return usage("--exec: expected --alert-if beside it, found none");
  if (f.exec.has_value() && f.exec->empty()) return usage("--exec: expected a command, found an empty text");
  if (f.alert_every && !f.alert_if.has_value())
    return usage("--alert-every: expected --alert-if beside it, found none");
  if (f.exec_timeout_s.has_value() && !f.exec.has_value()) {
    return usage("--exec-timeout: expected --exec beside it, found none");
  }
  if (f.font.has_value() && !f.save_video.has_value())
    return usage("--font: expected --save-video beside it, found none");
  if (f.no_reuse && f.noise_threshold.has_value()) {
    return usage("--noise-threshold: expected slices to be reused, found --no-reuse");
  }
  return CheckGenerationFlags(f.generation);
}

bool IsDevice(const std::string& source) {
  return source == "camera" || source.starts_with("camera:") || source.starts_with("/dev/video") ||
         source.starts_with("rtsp://") || source.starts_with("rtsps://");
}

LiveOptions ResolveLive(const WatchFlags& f) {
  LiveOptions o;
  o.every_frame = f.every_frame;
  o.follow = !f.no_follow;
  o.cancel = &InterruptFlag();
  return o;
}

SessionOptions ResolveSession(const WatchFlags& f) {
  SessionOptions o;
  o.reuse_views = !f.no_reuse;
  o.view_noise = static_cast<int>(f.noise_threshold.value_or(0));
  return o;
}

WatchRules ResolveRules(const WatchFlags& f) {
  WatchRules rules;
  rules.every_s = f.every_s.value_or(0);
  rules.on_change = f.on_change;
  rules.max_answers = f.max_answers.value_or(0);
  rules.stop_after_s = f.stop_after_s.value_or(0);
  rules.alarm_every = f.alert_every;
  return rules;
}

}  // namespace minicpm::cli
