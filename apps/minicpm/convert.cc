// `minicpm convert`: an official checkpoint, or a shape, becomes a bundle.
#include "convert/convert.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "command.h"
#include "console.h"
#include "convert/synthetic.h"
#include "interrupt.h"
#include "os/clock.h"

namespace minicpm::cli {
namespace {

constexpr const char* kFooter =
    R"(Formats: f32, f16, bf16, source (as in the checkpoint), int8 (7-bit weights, one scale per row), int4 (4.25 bits,
groups of 32). --weights sets the language model. With int8 and int4 the vision tower and the resampler become int8, and norms,
biases, convolutions, position tables, queries and the resampler's output projection stay as they were; with a float
format these parts take it, too, except norms, biases and queries. docs/bundle.md has the table.

The bundle grows in BUNDLE.partial and takes its name when it is complete. After a kill, a full disk or Ctrl-C the same
command goes on where it was. Same checkpoint, options and version: same bytes, except for the time (--created fixes it).
Exit code: 0 done, 1 failed or interrupted, 2 wrong usage.

Examples:
  minicpm convert models/MiniCPM-V-4_5 bundles/v45-int4
  minicpm convert models/MiniCPM-V-4_5 bundles/v45-int8 --weights int8 --head bf16
  minicpm convert models/MiniCPM-V-4_5 bundles/v45-mixed --vision bf16 --keep "llm.model.layers.0.*=bf16"
  minicpm convert --synthetic minicpm-v-4_5:layers=4 bundles/random --weights int4)";

struct ConvertFlags {
  std::vector<std::string> folders;  // checkpoint and bundle, or only the bundle with --synthetic
  std::optional<std::string> synthetic;
  RecipeOptions recipe;
  std::optional<int64_t> seed;
  std::optional<int64_t> threads;
  std::optional<std::string> created;
  bool restart = false;
  bool force = false;
  bool no_selftest = false;
  bool selftest = false;
  bool quiet = false;
};

const std::vector<std::string> kFormats = {"f32", "f16", "bf16", "int8", "int4", "source"};

void AddOptions(CLI::App& app, ConvertFlags& f) {
  app.add_option("CHECKPOINT BUNDLE", f.folders,
                 "folder of an official checkpoint, and the folder to make;\nwith --synthetic only the latter")
      ->required()
      ->expected(1, 2)
      ->type_name("");
  AddOptionalText(
      app, "--synthetic", f.synthetic,
      "random weights at real shapes, for benchmarks: minicpm-v-2_6, minicpm-v-4_5, minicpm-o-4_5, qwen3-0.6b "
      "or the path of a config.json; behind it :layers=N, :vision_layers=N or :audio_layers=N",
      "MODEL");
  AddChoice(app, "--weights", f.recipe.weights, kFormats, "the language model (default int4)");
  const auto part = [&](const char* name, std::optional<std::string>& value, const char* help) {
    AddOptionalText(app, name, value, help, "FORMAT");
  };
  part("--vision", f.recipe.vision, "the vision tower");
  part("--resampler", f.recipe.resampler, "the resampler");
  part("--audio", f.recipe.audio, "the audio tower (not int4)");
  part("--head", f.recipe.head, "the output head");
  part("--embeddings", f.recipe.embeddings, "the token embeddings");
  AddTextList(app, "--keep", f.recipe.keep,
              "one kind of tensor in another format, by name with * and ?; may be given several times, the last match "
              "counts",
              "PATTERN=FORMAT");
  AddFlag(app, "--keep-unused", f.recipe.keep_unused, "also copy tensors that nothing here reads");
  AddInteger(app, "--seed", f.seed, 0, int64_t{1} << 32, "of the random weights (default 1)");
  AddInteger(app, "--threads", f.threads, 1, 1024, "default: all usable cores");
  AddFlag(app, "--restart", f.restart, "throw an unfinished bundle of this name away and begin again");
  AddFlag(app, "--force", f.force, "replace a bundle of this name, once the new one is complete");
  AddFlag(app, "--no-selftest", f.no_selftest, "do not run the model afterwards to write selftest.json");
  AddFlag(app, "--selftest", f.selftest, "with --synthetic: do");
  AddOptionalText(app, "--created", f.created, "the time to write into bundle.json, for bytes that can be made again",
                  "UTC");
  AddFlag(app, "--quiet", f.quiet, "no progress and no notes");
}

// "1.23 GB", decimal as disks are sold.
std::string Gigabytes(uint64_t bytes) {
  char text[32];
  const double n = static_cast<double>(bytes);
  std::snprintf(text, sizeof text, n < 1e9 ? "%.1f MB" : "%.2f GB", n < 1e9 ? n / 1e6 : n / 1e9);
  return text;
}

// Percent, bytes per second and time left, on a terminal.
class ProgressLine : public ConvertListener {
 public:
  explicit ProgressLine(Console& console) : console_(console) {}
  void OnProgress(const char* what, uint64_t done, uint64_t total) override {
    if (!console_.shows_progress()) return;
    const double now = NowMs();
    if (what != what_) {
      what_ = what;
      start_ms_ = now;
      start_bytes_ = done;
      shown_ms_ = 0;
    }
    if (now - shown_ms_ < kBetweenMs && done != total) return;
    shown_ms_ = now;
    if (total == 0) return console_.Transient(std::string(what) + " ...");
    const double seconds = (now - start_ms_) / 1000;
    const double rate = seconds > 0.2 ? static_cast<double>(done - start_bytes_) / seconds : 0;
    char text[160];
    std::snprintf(text, sizeof text, "%s: %5.1f %%  %s of %s", what,
                  100.0 * static_cast<double>(done) / static_cast<double>(total), Gigabytes(done).c_str(),
                  Gigabytes(total).c_str());
    std::string line = text;
    if (rate > 0) {
      const auto left = static_cast<int64_t>(static_cast<double>(total - done) / rate + 0.5);
      std::snprintf(text, sizeof text, "  %.0f MB/s  %lld:%02lld left", rate / 1e6, static_cast<long long>(left / 60),
                    static_cast<long long>(left % 60));
      line += text;
    }
    console_.Transient(line);
  }

 private:
  static constexpr double kBetweenMs = 200;
  Console& console_;
  const char* what_ = nullptr;
  double start_ms_ = 0;
  double shown_ms_ = 0;
  uint64_t start_bytes_ = 0;
};

bool IsUtcTime(const std::string& text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00Z";
  if (text.size() != kShape.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !digit : text[i] != kShape[i]) return false;
  }
  return true;
}

Status CheckFlags(const ConvertFlags& f) {
  const auto usage = [](const char* text) { return Fail(ErrorCode::kInvalidArgument, text); };
  if (f.synthetic.has_value() && f.folders.size() != 1) return usage("--synthetic: expected one folder, the bundle's");
  if (!f.synthetic.has_value() && f.folders.size() != 2) return usage("expected two folders: CHECKPOINT BUNDLE");
  if (!f.synthetic.has_value() && f.seed.has_value()) return usage("--seed is for --synthetic only");
  if (f.created.has_value() && !IsUtcTime(*f.created)) {
    return usage("--created: expected a time such as 2026-11-30T23:00:00Z");
  }
  return {};
}

// What both kinds of conversion are told.
template <class Options>
Options Common(const ConvertFlags& f, ConvertListener& listener) {
  Options options;
  options.folder = f.folders.back();
  options.recipe = f.recipe;
  options.tool = kToolVersion;
  options.created_utc = f.created.value_or("");
  options.restart = f.restart;
  options.force = f.force;
  options.n_threads = static_cast<int>(f.threads.value_or(0));
  options.cancel = &InterruptFlag();
  options.listener = &listener;
  return options;
}

Result<FinishedBundle> Convert(const ConvertFlags& f, ConvertListener& listener) {
  if (!f.synthetic.has_value()) {
    auto options = Common<ConvertOptions>(f, listener);
    options.checkpoint = f.folders.front();
    options.selftest = !f.no_selftest;
    return ConvertCheckpoint(options);
  }
  auto options = Common<SyntheticOptions>(f, listener);
  options.model = *f.synthetic;
  options.seed = static_cast<uint64_t>(f.seed.value_or(1));
  options.selftest = f.selftest;
  return WriteSyntheticBundle(options);
}

}  // namespace

int ConvertCommand(const Arguments& arguments) {
  CLI::App app("Makes a bundle from an official checkpoint: weights in the format asked for, everything hashed.",
               "minicpm convert");
  ConvertFlags flags;
  AddOptions(app, flags);
  app.footer(kFooter);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(flags.quiet);
  if (const Status usage = CheckFlags(flags); !usage.has_value()) {
    console.Error(usage.error().message);
    return kExitUsage;
  }
  StopOnInterrupt();
  ProgressLine progress(console);
  const double start_ms = NowMs();
  const auto done = Convert(flags, progress);
  console.Transient("");
  if (!done.has_value()) {
    console.Error(done.error().message);
    return done.error().code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
  }
  if (done->cancelled) {
    console.Error("interrupted; the same command goes on where it was (unfinished: " + flags.folders.back() +
                  ".partial)");
    return kExitFailed;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", (NowMs() - start_ms) / 1000);
  console.Note(flags.folders.back() + ": " + std::to_string(done->manifest.tensors.size()) + " tensors, " +
               Gigabytes(done->bytes) + ", in " + text + " s");
  return kExitDone;
}

}  // namespace minicpm::cli
