// Engine: a loaded model, immutable and shared: configuration, tokenizer, weights. Makes prompts and backends.
// Not for timelines or generation: Session does that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/prompt.h"
#include "sampling/sampler.h"
#include "text/tokenizer.h"

namespace minicpm {

struct EngineOptions {
  std::string engine = "native";
  LogSink* log = nullptr;  // warnings; may be null
};

struct BackendOptions {
  int n_threads = 0;  // 0 = all usable cores
  bool pin = false;
  std::string isa;               // "" = best available
  DType kv_dtype = DType::kF16;  // kF32 | kF16 | kI8 (one scale per token and head)
  int64_t context = 0;           // positions of all sequences together; 0 = default_context()
  bool check_memory = true;      // refuse when weights + KV + 250 MB exceed the available memory
};

// What a model is, for inspect and for reports.
struct ModelSummary {
  struct Part {
    std::string name;  // "vision", "resampler", "language", "other"
    int64_t n_tensors = 0;
    int64_t n_parameters = 0;
    uint64_t n_bytes = 0;
    std::vector<std::string> dtypes;
    bool used = true;              // false: in the files, but nothing here reads it
    std::string matmul_dtype;      // of most weights of its linear layers
    std::string head_dtype;        // of the output projection; "" when the part has none
    uint64_t embedding_bytes = 0;  // of tables whose rows are gathered
  };
  std::vector<Part> parts;
  std::vector<std::string> weight_files;
  uint64_t weight_bytes = 0;
  std::string weights_sha256;  // where it is known without reading the weights: a bundle's manifest says it; else ""
  std::string licence;         // first line of the LICENSE file, "" when there is none
};

struct ModelConfig;

// Threads: const methods from any number of threads. Lifetime: sessions and backends keep it alive.
class Engine {
 public:
  // `folder`: an official checkpoint or a bundle. Errors name what is missing or wrong.
  static Result<std::shared_ptr<const Engine>> Open(const std::string& folder, const EngineOptions& options);
  ~Engine();

  const ModelConfig& config() const;
  const char* family_name() const;
  const Tokenizer& tokenizer() const;
  const std::string& folder() const;
  // Sampling defaults of the family's official chat helper.
  SamplingOptions default_sampling() const;
  // The longest prompt the chat helper accepts plus 2048 new tokens, at most the model's positions.
  int64_t default_context() const;
  bool IsStop(int32_t id) const;
  // Whether prompts may hold sound.
  bool hears() const;
  ModelSummary Summary() const;
  // SHA-256 over the weight files in order, lower-case hex. Reads everything, except of a bundle: there the manifest
  // says it, and `minicpm verify` checks that it is true.
  Result<std::string> WeightsSha256() const;

  // Errors: kInvalidArgument for messages that cannot be rendered, kResourceExhausted for pictures over a limit.
  Result<Prompt> BuildPrompt(std::span<const Message> messages, const PromptOptions& options) const;

  // A worker's own backend: threads, scratch and cache over the shared weights.
  Result<std::unique_ptr<Backend>> NewBackend(const BackendOptions& options) const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
