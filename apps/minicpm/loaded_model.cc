// Implementation of loaded_model.h.
#include "loaded_model.h"

#include "os/clock.h"

namespace minicpm::cli {

Result<LoadedModel> LoadModel(const std::string& folder, const GenerationFlags& flags, Console& console,
                              SessionOptions session) {
  const double start_ms = NowMs();
  console.Transient("opening " + folder + " ...");
  LoadedModel model;
  EngineOptions engine_options;
  engine_options.engine = flags.engine;
  engine_options.log = &console;
  MINICPM_ASSIGN(model.engine, Engine::Open(folder, engine_options));
  MINICPM_ASSIGN(model.backend, model.engine->NewBackend(ResolveBackend(flags)));
  session.context = flags.context.value_or(0);
  MINICPM_ASSIGN(model.session, Session::Create(model.engine, *model.backend, session));
  model.load_ms = NowMs() - start_ms;
  console.Transient("");
  return model;
}

}  // namespace minicpm::cli
