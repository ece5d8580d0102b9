// A model ready to answer: engine, the one backend of this process, one session on it. Not for prompts or printing.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "console.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "options.h"

namespace minicpm::cli {

struct LoadedModel {
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Session> session;  // after backend: it goes first
  double load_ms = 0;
};

// Errors are those of the engine; warnings go to `console`. `session`'s context is taken from `flags`.
Result<LoadedModel> LoadModel(const std::string& folder, const GenerationFlags& flags, Console& console,
                              SessionOptions session = {});

}  // namespace minicpm::cli
