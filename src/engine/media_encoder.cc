// Implementation of media_encoder.h: cut, patch, encode view by view; pixels and patches of one view at a time.
#include "engine/media_encoder.h"

#include <algorithm>

#include "models/blocks/model_config.h"
#include "os/clock.h"

namespace minicpm {
namespace {

constexpr double kPieceMs = 50.0;  // how often cancel is looked at

bool Cancelled(const std::atomic<bool>* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

}  // namespace

bool SameMedia(const PromptMedia& a, const PromptMedia& b) {
  const SliceConfig& x = a.slice_config;
  const SliceConfig& y = b.slice_config;
  return a.image->digest == b.image->digest && x.max_slices == y.max_slices &&
         x.scale_resolution == y.scale_resolution && x.patch == y.patch && x.divisor == y.divisor &&
         x.slice_mode == y.slice_mode;
}

const MediaEncoder::Encoded* MediaEncoder::Find(const PromptMedia& media) const {
  for (const Encoded& e : encoded_) {
    if (SameMedia(e.media, media)) return &e;
  }
  return nullptr;
}

ConstMatrix MediaEncoder::Rows(const Prompt& prompt, const MediaSpan& span) const {
  const Encoded* e = Find(prompt.media[span.media]);
  MINICPM_CHECK(e != nullptr);
  const int64_t width = config_.decoder.n_embed;
  return {e->rows.data() + span.view * span.n * width, span.n, width};
}

Result<bool> MediaEncoder::Encode(const Prompt& prompt, int64_t from, const std::atomic<bool>* cancel,
                                  GenerationListener* listener) {
  encoded_.remove_if([&prompt](const Encoded& e) {
    return std::none_of(prompt.media.begin(), prompt.media.end(),
                        [&e](const PromptMedia& media) { return SameMedia(media, e.media); });
  });
  std::vector<bool> needed(prompt.media.size(), false);
  for (const MediaSpan& span : prompt.spans) {
    if (span.begin + span.n > from) needed[span.media] = true;
  }
  int64_t total = 0;
  for (size_t i = 0; i < prompt.media.size(); ++i) {
    needed[i] = needed[i] && Find(prompt.media[i]) == nullptr;
    if (needed[i]) total += prompt.media[i].plan.n_views();
  }
  int64_t done = 0;
  int first_item = 0;
  for (size_t i = 0; i < prompt.media.size(); ++i) {
    if (needed[i] && Find(prompt.media[i]) == nullptr) {
      MINICPM_ASSIGN(const bool finished, EncodeOne(prompt.media[i], first_item, done, total, cancel, listener));
      if (!finished) return false;
    }
    first_item += prompt.media[i].plan.n_views();
  }
  return true;
}

Result<bool> MediaEncoder::EncodeOne(const PromptMedia& media, int first_item, int64_t& done, int64_t total,
                                     const std::atomic<bool>* cancel, GenerationListener* listener) {
  const SliceConfig& slicing = media.slice_config;
  auto cut = CutViews(media.image->image, media.plan, slicing);
  if (!cut.has_value()) return Annotate(Printable(media.image->name, 400), std::move(cut).error());
  std::vector<Image>& views = *cut;
  const int64_t n_queries = config_.resampler.n_queries;
  const int64_t width = config_.decoder.n_embed;
  Encoded encoded{media, std::vector<float>(views.size() * static_cast<size_t>(n_queries * width))};
  std::vector<float> patches;
  std::vector<int32_t> positions;
  for (size_t i = 0; i < views.size(); ++i) {
    const double start_ms = NowMs();
    const PatchGrid grid = GridOf({views[i].width, views[i].height}, slicing.patch);
    patches.resize(static_cast<size_t>(grid.count() * config_.vision.n_patch_values()));
    positions.resize(static_cast<size_t>(grid.count()));
    const Matrix matrix(patches.data(), grid.count(), config_.vision.n_patch_values());
    FillPatches(views[i], slicing.patch, config_.image_mean, config_.image_std, matrix);
    FillPositionIds(grid, static_cast<int>(config_.vision.n_side()), positions.data());
    views[i] = Image();  // the pixels are no longer needed

    VisionView view;
    view.patches = matrix;
    view.position_ids = positions.data();
    view.grid_rows = grid.rows;
    view.grid_cols = grid.cols;
    const VisionGroup group(&view, 1);
    VisionRequest request;
    request.groups = {&group, 1};
    request.out = Matrix(encoded.rows.data() + static_cast<int64_t>(i) * n_queries * width, n_queries, width);
    request.first_item = first_item + static_cast<int>(i);
    MINICPM_ASSIGN(const std::unique_ptr<Job> job, backend_.BeginVision(request));
    for (bool finished = false; !finished;) {
      if (Cancelled(cancel)) return false;
      MINICPM_ASSIGN(finished, job->Step(NowMs() + kPieceMs));
    }
    if (listener != nullptr) listener->OnViewEncoded(++done, total, NowMs() - start_ms);
  }
  encoded_.push_back(std::move(encoded));
  return true;
}

}  // namespace minicpm
