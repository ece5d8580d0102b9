// Implementation of options.h.
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <random>

#include "arguments.h"
#include "engine/prompt_lookup.h"

namespace minicpm::cli {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr int64_t kMaxSeed = (int64_t{1} << 53) - 1;  // the integers that a JSON reader with doubles keeps
constexpr int64_t kMaxThreads = 1024;

void AddSamplingOptions(CLI::App& app, GenerationFlags& f) {
  AddNumber(app, "--temperature", f.temperature, 0, 100,
            "0 = greedy: always the most likely token, and no repetition penalty unless you give one "
            "(default: as the model's own chat helper, usually 0.7)");
  AddInteger(app, "--top-k", f.top_k, 0, 1 << 30,
             "sample from the N most likely tokens only, 0 = off (default: the model's)");
  AddNumber(app, "--top-p", f.top_p, 0, 1,
            "sample from the smallest set of tokens with this probability, 1 = off (default: the model's)");
  AddNumber(app, "--min-p", f.min_p, 0, 1,
            "drop tokens below X times the likeliest one's probability (default: 0 = off)");
  AddNumber(app, "--repetition-penalty", f.repetition_penalty, 0.01, 100,
            "above 1: tokens already generated become less likely (default: the model's, 1 when greedy)");
  AddInteger(app, "--seed", f.seed, 0, kMaxSeed,
             "same seed, same answer (default: a new one each time; --json reports it)");
}

void AddTextOptions(CLI::App& app, GenerationFlags& f) {
  AddInteger(app, "--max-new-tokens", f.max_new_tokens, 1, kMaxTokens, "stop after N tokens (default: 2048)");
  AddTextList(app, "--stop", f.stop, "end the answer before this text; may be given several times", "TEXT");
  AddOptionalText(app, "--system", f.system, "system message: how the model shall behave", "TEXT");
  AddChoice(app, "--thinking", f.thinking, {"on", "off", "auto"},
            "let the model reason before it answers, if it can; auto = as its chat template decides (default: off)");
  AddFlag(app, "--show-thinking", f.show_thinking, "print the reasoning to stderr as it comes");
}

void AddMachineOptions(CLI::App& app, GenerationFlags& f) {
  AddInteger(app, "--max-slices", f.max_slices, 1, 256,
             "cut a picture into at most N slices; 1 = overview only, fastest and coarsest (default: the checkpoint's, "
             "usually 9)");
  AddChoice(app, "--downsample", f.downsample, {"16x", "4x"},
            "MiniCPM-V 4.6: how many patches become one token; 4x sees finer and costs four times the tokens (default: "
            "the checkpoint's, 16x)");
  AddInteger(app, "--context", f.context, 1, kMaxTokens,
             "reserve room for N tokens, prompt and answer together (default: the model's chat limit plus 2048)");
  AddChoice(app, "--kv", f.kv, {"f32", "f16", "int8"},
            "number format of the key/value cache: int8 takes half the memory of f16 (default: f16)");
  AddChoice(app, "--lookup", f.lookup, {"on", "off", "auto"},
            "guess tokens that stood after the last ones before and check several in one step; the answer is the same; "
            "auto = only where it is likely to pay (default: auto)");
  AddInteger(app, "--lookup-tokens", f.lookup_tokens, 1, PromptLookup::kMostTokens,
             "guess up to N tokens at once (default: 3)");
  AddInteger(app, "--threads", f.threads, 1, kMaxThreads,
             "compute threads; the answer does not depend on it (default: all usable cores)");
  AddFlag(app, "--pin", f.pin, "tie each compute thread to one core");
  AddChoice(app, "--isa", f.isa, {"scalar", "avx2", "avx_vnni", "avx512_vnni", "neon_dotprod"},
            "use this instruction set instead of the best one, for tests");
  AddChoice(app, "--engine", f.engine, {"native", "onnxruntime", "openvino"},
            "who computes; only native is in this version (default: native)");
  AddFlag(app, "-q,--quiet", f.quiet, "no progress and no notes on stderr, only warnings and errors");
}

}  // namespace

void AddGenerationOptions(CLI::App& app, GenerationFlags& flags) {
  AddTextOptions(app, flags);
  AddSamplingOptions(app, flags);
  AddMachineOptions(app, flags);
}

Status CheckGenerationFlags(const GenerationFlags& flags) {
  if (flags.engine != "native") {
    return Fail(ErrorCode::kInvalidArgument, "--engine: " + flags.engine + " is not in this version, expected native");
  }
  if (std::find(flags.stop.begin(), flags.stop.end(), "") != flags.stop.end()) {
    return Fail(ErrorCode::kInvalidArgument, "--stop: expected a text, found an empty one");
  }
  return {};
}

uint64_t ChooseSeed(const GenerationFlags& flags) {
  if (flags.seed.has_value()) return static_cast<uint64_t>(*flags.seed);
  std::random_device device;
  return device() & 0xffffffffu;
}

SamplingOptions ResolveSampling(const GenerationFlags& flags, SamplingOptions defaults, uint64_t seed) {
  SamplingOptions s = defaults;
  if (flags.temperature.has_value()) s.temperature = static_cast<float>(*flags.temperature);
  if (flags.top_k.has_value()) s.top_k = static_cast<int32_t>(*flags.top_k);
  if (flags.top_p.has_value()) s.top_p = static_cast<float>(*flags.top_p);
  if (flags.min_p.has_value()) s.min_p = static_cast<float>(*flags.min_p);
  if (s.temperature == 0.0f) s.repetition_penalty = 1.0f;
  if (flags.repetition_penalty.has_value()) s.repetition_penalty = static_cast<float>(*flags.repetition_penalty);
  s.seed = seed;
  return s;
}

GenerationOptions ResolveGeneration(const GenerationFlags& flags, const SamplingOptions& defaults, uint64_t seed) {
  GenerationOptions g;
  g.sampling = ResolveSampling(flags, defaults, seed);
  g.max_new_tokens = flags.max_new_tokens.value_or(g.max_new_tokens);
  g.stop = flags.stop;
  g.lookup = flags.lookup == "on" ? Lookup::kOn : flags.lookup == "off" ? Lookup::kOff : Lookup::kAuto;
  g.lookup_tokens = static_cast<int>(flags.lookup_tokens.value_or(g.lookup_tokens));
  return g;
}

PromptOptions ResolvePrompt(const GenerationFlags& flags) {
  PromptOptions p;
  p.thinking = flags.thinking == "on" ? Thinking::kOn : flags.thinking == "auto" ? Thinking::kAuto : Thinking::kOff;
  if (flags.max_slices.has_value()) p.max_slices = static_cast<int>(*flags.max_slices);
  if (!flags.downsample.empty()) p.downsample = flags.downsample == "4x" ? 4 : 16;
  return p;
}

BackendOptions ResolveBackend(const GenerationFlags& flags) {
  BackendOptions b;
  b.n_threads = static_cast<int>(flags.threads.value_or(0));
  b.pin = flags.pin;
  b.isa = flags.isa;
  b.kv_dtype = flags.kv == "f32" ? DType::kF32 : flags.kv == "int8" ? DType::kI8 : DType::kF16;
  b.context = flags.context.value_or(0);
  return b;
}

}  // namespace minicpm::cli
