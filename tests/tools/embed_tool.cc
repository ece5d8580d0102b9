// embed_tool REFERENCE CANDIDATE PICTURE...: how close the rows of pictures and the logits of two models are, for
// weights that differ in format only. Prints a table; not part of the product.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cosine.h"
#include "engine/engine.h"
#include "engine/media_encoder.h"
#include "engine/session.h"

namespace minicpm {
namespace {

struct Model {
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<Backend> backend;
};

bool Open(const char* folder, Model& m) {
  auto engine = Engine::Open(folder, {});
  if (!engine.has_value()) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    return false;
  }
  m.engine = *engine;
  auto backend = m.engine->NewBackend({.kv_dtype = DType::kF32, .context = 4096});
  if (!backend.has_value()) {
    std::fprintf(stderr, "%s\n", backend.error().message.c_str());
    return false;
  }
  m.backend = std::move(*backend);
  return true;
}

struct Output {
  std::vector<float> rows;
  std::vector<float> logits;
};

Result<Output> RunPicture(const Model& m, const char* picture) {
  MINICPM_ASSIGN(const auto image, LoadImageInput(picture));
  Message message;
  message.parts = {{"", image}, {"What is in the image?"}};
  MINICPM_ASSIGN(const Prompt prompt, m.engine->BuildPrompt({&message, 1}, {}));
  MediaEncoder encoder(m.engine->config(), *m.backend, {});
  encoder.Begin(prompt, 0, nullptr, nullptr);
  MINICPM_ASSIGN(const bool done, encoder.Encode(prompt, 0, static_cast<int64_t>(prompt.ids.size())));
  if (!done) return Fail(ErrorCode::kInvalidArgument, "cancelled");
  Output out;
  for (const MediaSpan& span : prompt.spans) {
    const ConstMatrix rows = encoder.Rows(prompt, span);
    for (int64_t r = 0; r < rows.rows; ++r) out.rows.insert(out.rows.end(), rows.row(r), rows.row(r) + rows.cols);
  }
  MINICPM_ASSIGN(auto session, Session::Create(m.engine, *m.backend, {.context = 4096}));
  MINICPM_ASSIGN(const bool fed, session->Feed(prompt, nullptr, nullptr));
  if (!fed) return Fail(ErrorCode::kInvalidArgument, "cancelled");
  out.logits.assign(session->last_logits().begin(), session->last_logits().end());
  return out;
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: embed_tool REFERENCE CANDIDATE PICTURE...\n");
    return 2;
  }
  Model reference, candidate;
  if (!Open(argv[1], reference) || !Open(argv[2], candidate)) return 1;
  for (int i = 3; i < argc; ++i) {
    const auto a = RunPicture(reference, argv[i]);
    const auto b = RunPicture(candidate, argv[i]);
    if (!a.has_value() || !b.has_value()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], (a.has_value() ? b.error() : a.error()).message.c_str());
      return 1;
    }
    std::printf("%-40s rows: cosine %.6f   logits: cosine %.6f\n", argv[i], Cosine(a->rows, b->rows),
                Cosine(a->logits, b->logits));
  }
  return 0;
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) { return minicpm::Main(argc, argv); }
