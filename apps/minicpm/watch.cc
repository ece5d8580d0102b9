// `minicpm watch`: one question about a source that goes on, one JSON line per answer.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alert.h"
#include "alert_command.h"
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "interrupt.h"
#include "loaded_model.h"
#include "messages.h"
#include "os/clock.h"
#include "watch_loop.h"
#include "watch_options.h"
#include "watch_recorder.h"
#include "watch_report.h"
#include "watch_sources.h"

namespace minicpm::cli {
namespace {

constexpr const char* kExamples =
    R"(Each answer is one JSON line on stdout (docs/json/watch.schema.json, docs/watch.md); notes and errors go to stderr. When
the model is slower than the source, the newest frame wins and the others are dropped; the line says how many.
Ends when a file ends, with --max-answers or --stop-after, or with Ctrl-C (SIGINT) or SIGTERM: then the answer that is
being made is dropped, a video is finished, and a command that runs may end within its time limit.
Exit code: 0 ended as asked, 1 failed, 2 wrong usage.

Examples:
  minicpm watch models/MiniCPM-V-4_5 --source camera -p "Is the part defective? Answer yes or no, then where."
  minicpm watch bundles/v45-int4 --source rtsp://192.0.2.7/line1 -p "Is the belt jammed? Answer yes or no." \
      --every 5 --alert-if "(?i)^yes" --exec "/usr/local/bin/stop-belt"
  minicpm watch bundles/v45-int4 --source camera:1 -p "Is the part defective? Answer yes or no, then where." \
      --on-change 8 --save-video shift.avi --alert-if "(?i)^yes" --exec "tee -a alarms.jsonl >/dev/null"
  minicpm watch bundles/v45-int4 --source inbox/ --every-frame -p "Read the serial number." > numbers.jsonl
  minicpm watch bundles/v45-int4 --source record.y4m --every-frame --every 1 -p "How many people are there?")";

int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// The question about one frame, asked of a session that remembers the slices of the frame before.
class ModelAnswerer : public Answerer {
 public:
  ModelAnswerer(const WatchFlags& flags, const LoadedModel& model) : flags_(flags), model_(model) {
    options_ = ResolveGeneration(flags.generation, model.engine->default_sampling(), ChooseSeed(flags.generation));
    options_.cancel = &InterruptFlag();
    prompt_options_ = ResolvePrompt(flags.generation);
  }

  Result<std::optional<WatchAnswer>> Answer(const LiveFrame& frame) override {
    Conversation conversation;
    Message question;
    MessagePart picture;
    picture.image = MakeImageInput("frame " + std::to_string(frame.number), frame.image);
    MessagePart text;
    text.text = flags_.prompt;
    question.parts = {std::move(picture), std::move(text)};
    conversation.messages.push_back(std::move(question));
    if (flags_.generation.system.has_value()) SetSystem(conversation, *flags_.generation.system);
    MINICPM_ASSIGN(const Prompt prompt, model_.engine->BuildPrompt(conversation.messages, prompt_options_));
    MINICPM_ASSIGN(const GenerationResult result, model_.session->Generate(prompt, options_));
    if (result.finish_reason == FinishReason::kCancelled) return std::nullopt;
    WatchAnswer answer;
    answer.text = SplitReasoning(result.text, prompt.starts_inside_think).text;
    answer.finish_reason = FinishReasonName(result.finish_reason);
    answer.n_prompt_tokens = result.n_prompt_tokens;
    answer.n_tokens = static_cast<int64_t>(result.token_ids.size());
    answer.n_encoded_views = result.n_encoded_views;
    answer.n_reused_views = result.n_reused_views;
    answer.image_encode_ms = result.image_encode_ms;
    answer.prefill_ms = result.prefill_ms;
    answer.decode_ms = result.decode_ms;
    answer.total_ms = result.total_ms;
    return answer;
  }

 private:
  const WatchFlags& flags_;
  const LoadedModel& model_;
  GenerationOptions options_;
  PromptOptions prompt_options_;
};

// Where answers go: stdout, the video, the alarm's command. Recorder and command may be null.
class Outputs : public WatchSink {
 public:
  Outputs(const WatchFlags& flags, Console& console, OverlayRecorder* recorder, AlertCommand* command)
      : flags_(flags), console_(console), recorder_(recorder), command_(command) {}

  Status OnAnswer(const WatchEvent& event) override {
    const std::string line = WatchLine(event);
    console_.Answer(line);
    if (console_.out_failed()) return Fail(ErrorCode::kIo, "stdout: an answer could not be written");
    if (recorder_ != nullptr) recorder_->SetCaption(WatchCaption(event), event.alert.value_or(false));
    if (event.alarm && command_ != nullptr) command_->Start({line, AlertVariables(event, flags_.source)});
    return {};
  }
  // Otherwise the recorder has seen the frame before the loop did.
  Status OnFrame(const LiveFrame& frame) override {
    return recorder_ != nullptr && flags_.every_frame ? recorder_->Add(frame) : Status();
  }
  void OnWarning(const std::string& sentence) override { console_.Write(LogLevel::kWarning, sentence); }

 private:
  const WatchFlags& flags_;
  Console& console_;
  OverlayRecorder* const recorder_;
  AlertCommand* const command_;
};

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

// The whole command after its options are known to make sense.
class Watcher {
 public:
  Watcher(const WatchFlags& flags, std::optional<AlertPattern> pattern, Console& console)
      : flags_(flags), pattern_(std::move(pattern)), console_(console), loader_(flags.media) {}

  Status Run() {
    MINICPM_TRY(CheckBeforehand());
    StopOnInterrupt();
    MINICPM_ASSIGN(const LoadedModel model,
                   LoadModel(flags_.model, flags_.generation, console_, ResolveSession(flags_)));
    if (Interrupted()) return {};
    auto opened = OpenSource();
    if (Interrupted()) return {};
    if (!opened.has_value()) return std::unexpected(std::move(opened).error());
    const std::unique_ptr<LiveSource> source = std::move(*opened);
    MINICPM_TRY(MakeRecorder(source->fps()));
    Status done = Observe(*source, model);
    if (recorder_ != nullptr) {
      const Status finished = recorder_->Finish();
      if (finished.has_value()) return done;
      // What ended the watching matters more; without frames there was nothing to save.
      if (!done.has_value() || finished.error().code == ErrorCode::kNotFound) {
        console_.Write(LogLevel::kWarning, "--save-video: " + finished.error().message);
      } else {
        done = finished;
      }
    }
    return done;
  }

 private:
  // Loading a model takes long: what can be known to fail before does.
  Status CheckBeforehand() {
    MINICPM_ASSIGN(plugin_, loader_.Plugin());
    std::error_code error;
    if (!IsDevice(flags_.source) && !flags_.source.contains("://") && !std::filesystem::exists(flags_.source, error)) {
      return Fail(ErrorCode::kNotFound,
                  "--source: " + Printable(flags_.source, 400) +
                      ": expected a camera, an rtsp:// address, a file or a folder, found nothing "
                      "of this name");
    }
    if (!flags_.save_video.has_value()) return {};
    if (std::filesystem::equivalent(flags_.source, *flags_.save_video, error)) {
      return Fail(ErrorCode::kInvalidArgument, "--save-video: " + Printable(*flags_.save_video, 400) +
                                                   " is the source itself, expected another file");
    }
    MINICPM_ASSIGN(drawer_, TextDrawer::Create(flags_.font.value_or("")));
    // A writer that is dropped leaves nothing behind.
    const auto probe = OpenVideoWriter(*flags_.save_video, {.width = 16, .height = 16}, plugin_.get());
    return probe.has_value() ? Status() : std::unexpected(probe.error());
  }

  Result<std::unique_ptr<LiveSource>> OpenSource() {
    auto open = [this] { return OpenLiveSource(flags_.source, plugin_.get(), ResolveLive(flags_)); };
    MINICPM_ASSIGN(std::unique_ptr<LiveSource> source, open());
    if (!IsDevice(flags_.source)) return source;
    ReconnectingSource::Options options;
    options.open = open;
    options.note = [this](const std::string& sentence) { console_.Write(LogLevel::kWarning, sentence); };
    options.now_s = [] { return NowMs() / 1000; };
    options.give_up_after_s = flags_.reconnect_for_s;
    return std::make_unique<ReconnectingSource>(std::move(source), std::move(options));
  }

  Status MakeRecorder(double source_fps) {
    if (!flags_.save_video.has_value()) return {};
    std::error_code error;
    OverlayRecorder::Options options;
    options.evenly = std::filesystem::is_directory(flags_.source, error);
    options.fps = options.evenly ? 1 : source_fps > 0 ? std::clamp(source_fps, 0.01, 1000.0) : 10;
    options.open = [this](const VideoWriterOptions& o) {
      return OpenVideoWriter(*flags_.save_video, o, plugin_.get());
    };
    options.warn = [this](const std::string& sentence) { console_.Write(LogLevel::kWarning, sentence); };
    recorder_ = std::make_unique<OverlayRecorder>(std::move(drawer_), std::move(options));
    return {};
  }

  std::unique_ptr<AlertCommand> MakeAlertCommand() {
    if (!flags_.exec.has_value()) return nullptr;
    AlertCommand::Options options;
    options.command = *flags_.exec;
    options.environment = Environment();
    options.time_limit_s = flags_.exec_timeout_s.value_or(options.time_limit_s);
    options.warn = [this](const std::string& sentence) { console_.Write(LogLevel::kWarning, sentence); };
    return std::make_unique<AlertCommand>(std::move(options));
  }

  Status Observe(LiveSource& source, const LoadedModel& model) {
    const auto command = MakeAlertCommand();
    WatchRules rules = ResolveRules(flags_);
    rules.unix_ms = UnixMs;
    if (pattern_.has_value()) rules.is_alert = [this](const std::string& text) { return pattern_->Matches(text); };
    Outputs outputs(flags_, console_, recorder_.get(), command.get());
    ModelAnswerer answerer(flags_, model);
    // While the model thinks, frames go on being recorded, except where the source waits for the model.
    std::optional<ObservedSource> observed;
    if (recorder_ != nullptr && !flags_.every_frame) {
      observed.emplace(source, [this](const LiveFrame& frame) { return recorder_->Add(frame); });
    }
    LiveSource& watched = observed.has_value() ? *observed : source;
    MINICPM_ASSIGN(const WatchSummary s, Watch(watched, answerer, outputs, rules, &InterruptFlag()));
    console_.Note(std::to_string(s.n_answers) + " answers; " + std::to_string(s.n_arrived) + " frames came, " +
                  std::to_string(s.n_looked_at) + " were looked at; " + std::to_string(s.n_encoded_views) +
                  " views were encoded, " + std::to_string(s.n_reused_views) + " reused; " +
                  std::to_string(s.n_alarms) + " alarms");
    return {};
  }

  const WatchFlags& flags_;
  const std::optional<AlertPattern> pattern_;
  Console& console_;
  MediaLoader loader_;
  std::shared_ptr<const MediaPlugin> plugin_;
  std::unique_ptr<TextDrawer> drawer_;
  std::unique_ptr<OverlayRecorder> recorder_;
};

Result<std::optional<AlertPattern>> ReadAlertPattern(const WatchFlags& flags) {
  if (!flags.alert_if.has_value()) return std::nullopt;
  auto pattern = AlertPattern::Compile(*flags.alert_if);
  if (!pattern.has_value()) return Annotate("--alert-if", std::move(pattern).error());
  return std::optional<AlertPattern>(std::move(*pattern));
}

}  // namespace

int WatchCommand(const Arguments& arguments) {
  CLI::App app("Watches a camera, a stream, a video or a folder, asks a model about its frames, and raises alarms.",
               "minicpm watch");
  WatchFlags flags;
  AddWatchOptions(app, flags);
  app.footer(kExamples);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(flags.generation.quiet);
  if (const Status usage = CheckWatchFlags(flags); !usage.has_value()) {
    console.Error(usage.error().message);
    return kExitUsage;
  }
  auto pattern = ReadAlertPattern(flags);
  if (!pattern.has_value()) {
    console.Error(pattern.error().message);
    return kExitUsage;
  }
  // When the reader of the answers has left, writing fails, and the video is finished before this ends.
  signal(SIGPIPE, SIG_IGN);
  const Status done = Watcher(flags, std::move(*pattern), console).Run();
  if (!done.has_value()) {
    console.Error(done.error().message);
    return kExitFailed;
  }
  return kExitDone;
}

}  // namespace minicpm::cli
