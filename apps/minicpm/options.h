// The generation options, the same names wherever text is generated, and what they mean for engine, session and
// sampler. Not for options of one subcommand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace CLI {
class App;
}

namespace minicpm::cli {

// As given on the command line; empty = not given.
struct GenerationFlags {
  std::optional<int64_t> max_new_tokens;
  std::optional<double> temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> seed;
  std::vector<std::string> stop;
  std::optional<std::string> system;
  std::string thinking = "off";
  bool show_thinking = false;
  std::optional<int64_t> max_slices;
  std::string downsample;
  std::optional<int64_t> context;
  std::string kv = "f16";
  std::string lookup = "auto";
  std::optional<int64_t> lookup_tokens;
  std::optional<int64_t> threads;
  bool pin = false;
  std::string isa;
  std::string engine = "native";
  bool quiet = false;
};

// Binds the options to `flags`, which outlives the parsing.
void AddGenerationOptions(CLI::App& app, GenerationFlags& flags);

// Combinations that a single option's check cannot see. Errors: kInvalidArgument, one sentence.
Status CheckGenerationFlags(const GenerationFlags& flags);

// The seed given, or a fresh one from the system's random numbers (32 bits, so that every JSON reader keeps it exact).
uint64_t ChooseSeed(const GenerationFlags& flags);

// `defaults` are the family's. Temperature 0 is pure greedy: then the repetition penalty is 1 unless it was given.
SamplingOptions ResolveSampling(const GenerationFlags& flags, SamplingOptions defaults, uint64_t seed);

// Everything for Session::Generate except the cancel flag.
GenerationOptions ResolveGeneration(const GenerationFlags& flags, const SamplingOptions& defaults, uint64_t seed);

PromptOptions ResolvePrompt(const GenerationFlags& flags);
BackendOptions ResolveBackend(const GenerationFlags& flags);

}  // namespace minicpm::cli
