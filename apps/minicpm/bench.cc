// `minicpm bench`: how fast a model is on this machine, beside what the machine can do.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "arguments.h"
#include "bench_report.h"
#include "command.h"
#include "console.h"
#include "measure/measure_model.h"

namespace minicpm::cli {
namespace {

constexpr const char* kFooter =
    R"(Every speed is a median over --repeat runs, with the least and the most. A share holds it against what this machine
can do, measured right before and right after: the streaming read for decoding, multiply-adds in registers for slices and
prefill. docs/performance.md defines every figure. Anything else that runs on the machine spoils them.
Answers are not read: a bundle with random weights (`minicpm convert --synthetic`) is as fast as a real one.
Exit code: 0 measured, 1 failed, 2 wrong usage.

Examples:
  minicpm bench bundles/v45-int4
  minicpm bench bundles/v45-int4 --json > figures.json
  minicpm bench bundles/v45-int4 --prompt 1024 --generate 128 --repeat 5 --kv int8
  minicpm bench models/tiny/minicpm-v-4_5 --quick)";

struct BenchFlags {
  std::string model;
  bool json = false;
  std::optional<int64_t> slices, prompt, generate, depth, context, repeat, threads;
  bool pin = false;
  std::string isa;
  std::string kv = "f16";
  bool warm = false;
  bool quick = false;
  bool quiet = false;
};

void AddOptions(CLI::App& app, BenchFlags& f) {
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  AddText(app, "MODEL", f.model, "a bundle, or the folder of an official checkpoint", "")->required();
  AddFlag(app, "--json", f.json, "print one JSON object instead of the table (docs/json/bench.schema.json)");
  AddInteger(app, "--slices", f.slices, 1, 1000, "slices encoded for one time (default: 1)");
  AddInteger(app, "--prompt", f.prompt, 1, kMostTokens, "tokens of the prompt for prefill (default: 512)");
  AddInteger(app, "--generate", f.generate, 1, kMostTokens, "tokens that each sequence decodes (default: 64)");
  AddInteger(app, "--depth", f.depth, 0, kMostTokens, "positions held before decoding starts (default: 0)");
  AddInteger(app, "--context", f.context, 1, kMostTokens, "positions that kv_mb is for (default: 2048)");
  AddInteger(app, "--repeat", f.repeat, 1, 1000, "runs of everything; medians are taken over them (default: 3)");
  AddInteger(app, "--threads", f.threads, 1, 1024, "compute threads (default: all usable cores)");
  AddFlag(app, "--pin", f.pin, "tie each compute thread to one core");
  AddChoice(app, "--isa", f.isa, {"scalar", "avx2", "avx_vnni", "avx512_vnni", "neon_dotprod"},
            "use this instruction set instead of the best one, for tests");
  AddChoice(app, "--kv", f.kv, {"f32", "f16", "int8"}, "number format of the key/value cache (default: f16)");
  AddFlag(app, "--warm", f.warm, "do not drop the files from the system's cache first; load_cold_ms is null then");
  AddFlag(app, "--quick", f.quick, "measure the limits on little memory and in few rounds, for a first look");
  AddFlag(app, "-q,--quiet", f.quiet, "no progress on stderr, only warnings and errors");
}

ModelBenchOptions Resolve(const BenchFlags& f) {
  ModelBenchOptions o;
  o.n_threads = static_cast<int>(f.threads.value_or(0));
  o.pin = f.pin;
  o.isa = f.isa;
  o.kv_dtype = f.kv == "f32" ? DType::kF32 : f.kv == "int8" ? DType::kI8 : DType::kF16;
  o.slices = f.slices.value_or(o.slices);
  o.prompt = f.prompt.value_or(o.prompt);
  o.generate = f.generate.value_or(o.generate);
  o.depth = f.depth.value_or(o.depth);
  o.context = f.context.value_or(o.context);
  o.repeat = static_cast<int>(f.repeat.value_or(o.repeat));
  o.cold = !f.warm;
  o.quick = f.quick;
  return o;
}

}  // namespace

int BenchCommand(const Arguments& arguments) {
  CLI::App app("Measures a model on this machine: loading, one slice of a picture, prompt, decoding, memory.",
               "minicpm bench");
  BenchFlags flags;
  AddOptions(app, flags);
  app.footer(kFooter);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(flags.quiet);
  const ModelBenchOptions options = Resolve(flags);
  const auto report =
      RunModelBench(flags.model, options, &console, [&console](const std::string& what) { console.Transient(what); });
  console.Transient("");
  if (!report.has_value()) {
    console.Error(report.error().message);
    return kExitFailed;
  }
  console.Answer(flags.json ? BenchReportJson(*report, options) : BenchReportTable(*report, options));
  if (console.out_failed()) {
    console.Error("stdout: the figures could not be written completely");
    return kExitFailed;
  }
  return kExitDone;
}

}  // namespace minicpm::cli
