// TinyModel: one of the seeded tiny checkpoints, opened in a chosen weight type, with a backend and a session on it.
// For golden and generation tests; not a model anybody should use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "models/blocks/model_config.h"
#include "tests/support/expand_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace minicpm::test {

inline std::string TinyFolder(const std::string& family) {
  return std::string(MINICPM_SOURCE_DIR) + "/models/tiny/" + family;
}

inline const std::vector<std::string>& TinyFamilies() {
  static const std::vector<std::string> families = {"minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"};
  return families;
}

struct TinyOptions {
  DType weights = DType::kF32;  // the committed files hold bf16; others are expanded into a temporary folder
  DType kv = DType::kF32;
  int n_threads = 2;
  std::string isa;
  int64_t context = 2048;
  int64_t prefill_chunk = 256;
  std::string folder;  // another folder than the committed one, used as it is
};

class TinyModel {
 public:
  TinyModel(const std::string& family, const TinyOptions& options) {
    std::string folder = TinyFolder(family);
    if (!options.folder.empty()) {
      folder = options.folder;
    } else if (options.weights != DType::kBF16) {
      const Status expanded = ExpandCheckpoint(folder, temp_.path(), options.weights);
      EXPECT_TRUE(expanded.has_value()) << expanded.error().message;
      folder = temp_.path();
    }
    auto opened = Engine::Open(folder, {});
    if (!opened.has_value()) {
      ADD_FAILURE() << opened.error().message;
      return;
    }
    engine = *opened;
    BackendOptions backend_options;
    backend_options.n_threads = options.n_threads;
    backend_options.isa = options.isa;
    backend_options.kv_dtype = options.kv;
    backend_options.context = 2 * options.context;
    auto made = engine->NewBackend(backend_options);
    if (!made.has_value()) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    backend = std::move(*made);
    session = NewSession(options.context, options.prefill_chunk);
  }

  bool ok() const { return session != nullptr; }

  std::unique_ptr<Session> NewSession(int64_t context, int64_t prefill_chunk) {
    auto made = Session::Create(engine, *backend, {.context = context, .prefill_chunk = prefill_chunk});
    if (!made.has_value()) {
      ADD_FAILURE() << made.error().message;
      return nullptr;
    }
    return std::move(*made);
  }

  Prompt MakePrompt(const std::string& text, const std::vector<std::string>& images) const {
    Message message;
    for (const std::string& path : images) {
      auto image = LoadImageInput(path);
      EXPECT_TRUE(image.has_value()) << image.error().message;
      message.parts.push_back({"", *image});
    }
    message.parts.push_back({text});
    auto prompt = engine->BuildPrompt({&message, 1}, {});
    EXPECT_TRUE(prompt.has_value()) << prompt.error().message;
    return *prompt;
  }

 private:
  TempDir temp_;

 public:
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Session> session;
};

// Greedy, no penalty, no stops: what goldens are compared with.
inline GenerationOptions GreedyOptions(int64_t n) {
  GenerationOptions options;
  options.sampling.temperature = 0.0f;
  options.sampling.repetition_penalty = 1.0f;
  options.max_new_tokens = n;
  options.ignore_stop_tokens = true;
  return options;
}

}  // namespace minicpm::test
