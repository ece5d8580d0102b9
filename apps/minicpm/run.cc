// `minicpm run`: one question, one answer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "answer_stream.h"
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "interrupt.h"
#include "loaded_model.h"
#include "media_loader.h"
#include "messages.h"
#include "options.h"
#include "os/clock.h"
#include "run_report.h"

namespace minicpm::cli {
namespace {

constexpr size_t kMaxPromptBytes = size_t{16} << 20;
constexpr uint64_t kHashWithoutAsking = uint64_t{1} << 30;  // weights up to this size are hashed for --json

constexpr const char* kExamples =
    R"(Media come first, in the order given, then the prompt. Pictures: JPEG, PNG, WebP, GIF (first frame), TIFF and BMP. Sound:
WAV, FLAC, OGG, Opus and MP3. Videos: Y4M, and AVI with MJPEG; everything else with the media plugin (docs/media.md).
The answer goes to stdout as it comes; progress, notes and errors go to stderr.
Exit code: 0 answered, 1 failed or interrupted (Ctrl-C; what there is has been printed), 2 wrong usage.

Examples:
  minicpm run models/MiniCPM-V-4_5 -p "What is in the image?" --image photo.jpg
  minicpm run models/MiniCPM-V-4_5 -p "Is the label straight? Answer yes or no." --image part.png --temperature 0 --json
  minicpm run models/MiniCPM-V-4_5 -p "What changed?" --image before.jpg --image after.jpg --max-slices 4
  minicpm run models/MiniCPM-o-4_5 --audio question.wav
  minicpm run models/MiniCPM-o-4_5 --image plan.jpg --audio question.mp3
  minicpm run models/MiniCPM-V-4_5 -p "What happens?" --video clip.avi --max-video-seconds 60
  minicpm run models/MiniCPM-V-4_5 --messages conversation.json
  cat question.txt | minicpm run models/MiniCPM-V-4_5 -p -)";

struct RunFlags {
  std::string model;
  std::optional<std::string> prompt;
  MediaFlags media;
  std::optional<std::string> messages;
  bool json = false;
  bool hash_weights = false;
  GenerationFlags generation;
};

void AddOptions(CLI::App& app, RunFlags& f) {
  AddText(app, "MODEL", f.model, "folder of an official checkpoint, or a bundle", "")->required();
  AddOptionalText(app, "-p,--prompt", f.prompt, "the question; - reads it from stdin", "TEXT");
  AddMediaOptions(app, f.media, "for the question");
  AddOptionalText(
      app, "--messages", f.messages,
      "instead of -p and media: a conversation as OpenAI-style messages JSON, media by path (relative to this file), "
      "file:// or data: URL",
      "FILE");
  AddFlag(app, "--json", f.json, "print one JSON object instead of text (docs/json/run.schema.json)");
  AddFlag(app, "--hash-weights", f.hash_weights,
          "with --json: SHA-256 of a checkpoint's weights also above 1 GiB (it reads every byte; else it is null)");
  AddGenerationOptions(app, f.generation);
}

Status CheckFlags(const RunFlags& f) {
  const auto usage = [](const char* text) { return Fail(ErrorCode::kInvalidArgument, text); };
  const bool media = !f.media.files.empty();
  for (const MediaFlags::File& file : f.media.files) {
    if (file.path.empty()) return usage("--image, --audio and --video: expected a file name, found an empty text");
  }
  if (f.messages.has_value() && (f.prompt.has_value() || media)) {
    return usage("--messages holds the whole conversation and cannot be combined with -p, --image, --audio or --video");
  }
  if (!f.messages.has_value() && !f.prompt.has_value()) {
    // A spoken question needs no text.
    const auto spoken = [](const MediaFlags::File& file) { return file.type != MediaType::kImage; };
    if (std::none_of(f.media.files.begin(), f.media.files.end(), spoken)) {
      return usage("nothing to answer: expected -p TEXT, --audio FILE or --messages FILE");
    }
  }
  if (f.prompt.has_value() && f.prompt->empty() && !media) {
    return usage("-p: expected a text, found an empty one and no picture, sound or video");
  }
  return CheckGenerationFlags(f.generation);
}

Result<std::string> ReadStdin() {
  std::string text;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    text.append(buffer, n);
    if (text.size() > kMaxPromptBytes) {
      return Fail(ErrorCode::kResourceExhausted,
                  "stdin: expected a prompt of at most " + std::to_string(kMaxPromptBytes) + " bytes, found more");
    }
  }
  if (std::ferror(stdin) != 0) return Fail(ErrorCode::kIo, "stdin: cannot be read");
  // The newline that `echo` adds belongs to the shell, not to the question.
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Fail(ErrorCode::kInvalidArgument, "stdin: expected a prompt, found nothing");
  return text;
}

Result<Conversation> ReadQuestion(const RunFlags& f, MediaLoader& loader) {
  Conversation conversation;
  if (f.messages.has_value()) {
    MINICPM_ASSIGN(conversation, ReadConversation(*f.messages, loader));
  } else {
    Message question;
    std::string text = f.prompt.value_or("");
    if (text == "-") {
      MINICPM_ASSIGN(text, ReadStdin());
    }
    for (const MediaFlags::File& file : f.media.files) {
      MINICPM_ASSIGN(AddressedMedia medium, loader.LoadFile(file.type, file.path));
      question.parts.push_back(medium.part);
      conversation.media.push_back(std::move(medium));
    }
    if (!text.empty()) question.parts.push_back({std::move(text)});
    conversation.messages.push_back(std::move(question));
  }
  if (f.generation.system.has_value()) SetSystem(conversation, *f.generation.system);
  return conversation;
}

// Notes for a reader of text; with --json finish_reason says the same.
void ExplainEnd(const GenerationResult& result, Console& console) {
  const std::string n = std::to_string(result.token_ids.size());
  if (result.finish_reason == FinishReason::kLength) {
    console.Note("the answer was cut after " + n + " tokens (--max-new-tokens)");
  } else if (result.finish_reason == FinishReason::kContext) {
    console.Note("the answer was cut after " + n + " tokens because the context is full (--context)");
  } else if (result.finish_reason == FinishReason::kCancelled) {
    console.Note("interrupted after " + n + " tokens");
  }
  console.Progress("[" + SummaryLine(result) + "]");
}

Status PrintJson(const RunFlags& f, const LoadedModel& model, RunReport report, Console& console) {
  report.load_ms = model.load_ms;
  report.family = model.engine->family_name();
  report.isa = model.backend->isa();
  report.n_threads = model.backend->n_threads();
  const ModelSummary summary = model.engine->Summary();
  const bool hash = f.hash_weights || !summary.weights_sha256.empty() || summary.weight_bytes <= kHashWithoutAsking;
  if (hash && !Interrupted()) {
    console.Transient("hashing the weights ...");
    MINICPM_ASSIGN(report.weights_sha256, model.engine->WeightsSha256());
    console.Transient("");
  }
  console.Answer(RunReportJson(report));
  return {};
}

// The whole command after its options are known to make sense. The result is what happened, for the exit code.
Result<FinishReason> Answer(const RunFlags& f, Console& console) {
  const double start_ms = NowMs();
  RunReport report;
  MediaLoader loader(f.media);
  MINICPM_ASSIGN(Conversation conversation, ReadQuestion(f, loader));
  report.image_decode_ms = NowMs() - start_ms;
  StopOnInterrupt();
  MINICPM_ASSIGN(const LoadedModel model, LoadModel(f.model, f.generation, console));
  const double build_ms = NowMs();
  if (model.engine->hears()) MINICPM_TRY(LoadVideoSounds(conversation));
  PromptOptions prompt_options = ResolvePrompt(f.generation);
  prompt_options.video = ResolveVideoChoice(f.media);
  prompt_options.tools_json = conversation.tools_json;
  MINICPM_ASSIGN(const Prompt prompt, model.engine->BuildPrompt(conversation.messages, prompt_options));
  report.image_decode_ms += NowMs() - build_ms;

  report.seed = ChooseSeed(f.generation);
  GenerationOptions options = ResolveGeneration(f.generation, model.engine->default_sampling(), report.seed);
  options.cancel = &InterruptFlag();
  AnswerPrinter printer(console, prompt, {.print_answer = !f.json, .print_reasoning = f.generation.show_thinking});
  auto result = model.session->Generate(prompt, options, &printer);
  printer.Finish();
  if (!result.has_value()) return std::unexpected(std::move(result).error());
  report.total_ms = NowMs() - start_ms;
  report.result = std::move(*result);
  report.answer = SplitReasoning(report.result.text, prompt.starts_inside_think);
  const FinishReason reason = report.result.finish_reason;
  if (f.json) {
    MINICPM_TRY(PrintJson(f, model, std::move(report), console));
  } else {
    ExplainEnd(report.result, console);
  }
  if (console.out_failed()) return Fail(ErrorCode::kIo, "stdout: the answer could not be written completely");
  return reason;
}

}  // namespace

int RunCommand(const Arguments& arguments) {
  CLI::App app("Asks a model one question, with or without pictures, sound and videos, and prints its answer.",
               "minicpm run");
  RunFlags flags;
  AddOptions(app, flags);
  app.footer(kExamples);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(flags.generation.quiet);
  if (const Status usage = CheckFlags(flags); !usage.has_value()) {
    console.Error(usage.error().message);
    return kExitUsage;
  }
  const auto reason = Answer(flags, console);
  if (!reason.has_value()) {
    console.Error(reason.error().message);
    return kExitFailed;
  }
  return *reason == FinishReason::kCancelled ? kExitFailed : kExitDone;
}

}  // namespace minicpm::cli
