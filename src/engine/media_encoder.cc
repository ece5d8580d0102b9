// Implementation of media_encoder.h: pixels and patches of one view (of one group of frames) at a time.
#include "engine/media_encoder.h"

#include <algorithm>

#include "engine/prompt_builder.h"
#include "models/blocks/model_config.h"
#include "os/clock.h"
#include "video/composite.h"

namespace minicpm {
namespace {

constexpr double kPieceMs = 50.0;  // how often cancel is looked at

bool SameSound(const SoundStretch& a, const SoundStretch& b) {
  return a.begin == b.begin && a.end == b.end && a.n_padded == b.n_padded &&
         (a.audio == b.audio || a.audio->digest == b.audio->digest);
}

bool SamePixels(const PromptMedia& a, const PromptMedia& b) {
  if (a.kind == MediaKind::kPicture) return a.image == b.image || a.image->digest == b.image->digest;
  return a.video == b.video && a.frames.frames == b.frames.frames && a.frames.composite == b.frames.composite &&
         a.frames.temporal_ids == b.frames.temporal_ids;
}

// All sound of a medium, one stretch after the other.
Samples Join(const PromptMedia& media) {
  Samples all;
  all.reserve(static_cast<size_t>(media.n_samples()));
  for (const SoundStretch& s : media.sound) {
    all.insert(all.end(), s.audio->samples.begin() + s.begin, s.audio->samples.begin() + s.end);
    all.insert(all.end(), static_cast<size_t>(s.n_padded - (s.end - s.begin)), 0.0f);
  }
  return all;
}

}  // namespace

bool SameMedia(const PromptMedia& a, const PromptMedia& b) {
  if (a.kind != b.kind || a.n_rows != b.n_rows) return false;
  if (a.kind == MediaKind::kSound) return std::ranges::equal(a.sound, b.sound, SameSound);
  const SliceConfig& x = a.slice_config;
  const SliceConfig& y = b.slice_config;
  return SamePixels(a, b) && x.max_slices == y.max_slices && x.scale_resolution == y.scale_resolution &&
         x.patch == y.patch && x.divisor == y.divisor && x.slice_mode == y.slice_mode;
}

MediaEncoder::MediaEncoder(const ModelConfig& config, Backend& backend, const SessionOptions& options)
    : config_(config), backend_(backend) {
  if (options.reuse_views) views_.emplace(options.view_noise);
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
  return {e->rows.data() + span.row * width, span.n, width};
}

void MediaEncoder::Begin(const Prompt& prompt, int64_t from, const std::atomic<bool>* cancel,
                         GenerationListener* listener) {
  cancel_ = cancel;
  listener_ = listener;
  work_ = {};
  n_views_done_ = n_views_ = 0;
  encoded_.remove_if([&prompt](const Encoded& e) {
    return std::none_of(prompt.media.begin(), prompt.media.end(),
                        [&e](const PromptMedia& media) { return SameMedia(media, e.media); });
  });
  std::vector<bool> counted(prompt.media.size(), false);
  for (const MediaSpan& span : prompt.spans) {
    if (span.begin + span.n <= from || counted[span.media]) continue;
    counted[span.media] = true;
    if (Find(prompt.media[span.media]) == nullptr) n_views_ += prompt.media[span.media].n_views();
  }
  if (views_.has_value() && n_views_ > 0) views_->BeginPicture();
}

Result<bool> MediaEncoder::Encode(const Prompt& prompt, int64_t begin, int64_t end) {
  for (const MediaSpan& span : prompt.spans) {
    if (span.begin + span.n <= begin) continue;
    if (span.begin >= end) break;
    const PromptMedia& media = prompt.media[span.media];
    if (Find(media) != nullptr) continue;
    const bool sound = media.kind == MediaKind::kSound;
    MINICPM_ASSIGN(const bool finished, sound ? EncodeSound(media) : EncodeViews(prompt, span.media));
    if (!finished) return false;
  }
  return true;
}

void MediaEncoder::Release(const Prompt& prompt, int64_t end) {
  encoded_.remove_if([&](const Encoded& e) {
    if (e.media.kind != MediaKind::kFrames) return false;
    // The same frames may stand twice in a prompt.
    return std::none_of(prompt.spans.begin(), prompt.spans.end(), [&](const MediaSpan& s) {
      return s.begin + s.n > end && SameMedia(prompt.media[s.media], e.media);
    });
  });
}

Result<bool> MediaEncoder::Run(Job& job) {
  for (bool finished = false; !finished;) {
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return false;
    MINICPM_ASSIGN(finished, job.Step(NowMs() + kPieceMs));
  }
  return true;
}

// The pixels of a picture (a copy), a composite, or each frame of a group.
Result<std::vector<Image>> MediaEncoder::Frames(const PromptMedia& media) {
  std::vector<Image> frames;
  const double start_ms = NowMs();
  if (reading_ != media.video) {
    reader_.reset();
    reading_.reset();
    MINICPM_ASSIGN(reader_, media.video->open());
    reading_ = media.video;
  }
  for (const int64_t index : media.frames.frames) {
    MINICPM_ASSIGN(Image frame, reader_->Frame(index));
    if (frame.width != media.video->info.width || frame.height != media.video->info.height) {
      return Fail(ErrorCode::kCorrupt,
                  Printable(media.video->name, 400) + ": frame " + std::to_string(index) + " has " +
                      std::to_string(frame.width) + " x " + std::to_string(frame.height) + " pixels, but the video " +
                      std::to_string(media.video->info.width) + " x " + std::to_string(media.video->info.height));
    }
    frames.push_back(std::move(frame));
  }
  if (media.frames.composite) {
    Image composite = Compose(frames);
    frames.clear();
    frames.push_back(std::move(composite));
  }
  work_.frame_decode_ms += NowMs() - start_ms;
  return frames;
}

Result<bool> MediaEncoder::EncodeViews(const Prompt& prompt, size_t index) {
  const PromptMedia& media = prompt.media[index];
  int64_t item = 0;
  for (size_t i = 0; i < index; ++i) item += prompt.media[i].n_views();
  std::vector<Image> frames;
  if (media.kind == MediaKind::kFrames) {
    MINICPM_ASSIGN(frames, Frames(media));
  }
  const double cut_ms = NowMs();
  std::vector<std::vector<Image>> views;  // of each frame
  const bool picture = media.kind == MediaKind::kPicture;
  for (size_t i = 0; i < (picture ? 1 : frames.size()); ++i) {
    auto cut = CutViews(picture ? media.image->image : frames[i], media.plan, media.slice_config);
    if (!cut.has_value()) {
      return Annotate(Printable(picture ? media.image->name : media.video->name, 400), std::move(cut).error());
    }
    views.push_back(std::move(*cut));
  }
  frames.clear();
  work_.vision_ms += NowMs() - cut_ms;

  const auto n_frames = static_cast<int64_t>(views.size());
  int64_t row = 0;
  Encoded encoded{media, std::vector<float>(static_cast<size_t>(media.n_rows * config_.decoder.n_embed))};
  for (int v = 0; v < media.plan.n_views(); ++v) {
    const double start_ms = NowMs();
    std::vector<Image> group;  // the same view of each frame; its pixels are dropped with it
    for (auto& of_frame : views) group.push_back(std::move(of_frame[static_cast<size_t>(v)]));
    const auto first_item = static_cast<int>(item + v * n_frames);
    const int64_t n_rows = RowsOfView(config_, media.slice_config, v == 0 ? media.plan.overview : media.plan.slice);
    const Matrix rows(encoded.rows.data() + row * config_.decoder.n_embed, n_rows, config_.decoder.n_embed);
    MINICPM_ASSIGN(const bool finished, EncodeView(group, media, v, first_item, rows));
    if (!finished) return false;
    row += n_rows;
    const double ms = NowMs() - start_ms;
    work_.vision_ms += ms;
    n_views_done_ += n_frames;
    if (listener_ != nullptr) listener_->OnViewEncoded({n_views_done_, n_views_, index, v, ms});
  }
  encoded_.push_back(std::move(encoded));
  return true;
}

// out [rows of the view, E]. A single still view is looked up first.
Result<bool> MediaEncoder::EncodeView(std::vector<Image>& frames, const PromptMedia& media, int view, int item,
                                      Matrix out) {
  float* const rows = out.data;
  const auto n_frames = static_cast<int64_t>(frames.size());
  const bool still = views_.has_value() && n_frames == 1 && media.frames.temporal_ids.empty();
  const ViewCache::Place place{view, media.plan.cols, media.plan.rows};
  if (still) {
    if (const std::vector<float>* known = views_->Find(frames[0], place)) {
      std::copy(known->begin(), known->end(), rows);
      ++work_.n_reused_views;
      return true;
    }
  }
  const Image kept = still ? frames[0] : Image();
  MINICPM_ASSIGN(const bool finished, RunVision(frames, media, item, out));
  if (!finished) return false;
  work_.n_encoded_views += n_frames;
  if (still) views_->Insert(kept, place, {rows, rows + out.rows * out.cols});
  return true;
}

// The same view of every frame through the vision tower, together through the resampler. Frees the pixels on the way.
Result<bool> MediaEncoder::RunVision(std::vector<Image>& frames, const PromptMedia& media, int item, Matrix out) {
  const SliceConfig& slicing = media.slice_config;
  std::vector<VisionView> views(frames.size());
  std::vector<std::vector<float>> patches(frames.size());
  std::vector<std::vector<int32_t>> positions(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    const PatchGrid grid = GridOf({frames[i].width, frames[i].height}, slicing.patch);
    patches[i].resize(static_cast<size_t>(grid.count() * config_.vision.n_patch_values()));
    positions[i].resize(static_cast<size_t>(grid.count()));
    const Matrix matrix(patches[i].data(), grid.count(), config_.vision.n_patch_values());
    FillPatches(frames[i], slicing.patch, config_.image_mean, config_.image_std, matrix);
    FillPositionIds(grid, static_cast<int>(config_.vision.n_side()), positions[i].data(),
                    config_.merger.has_value() ? PositionRule::kDivision : PositionRule::kArange);
    frames[i] = Image();
    views[i].patches = matrix;
    views[i].position_ids = positions[i].data();
    views[i].grid_rows = grid.rows;
    views[i].grid_cols = grid.cols;
    if (!media.frames.temporal_ids.empty()) views[i].temporal_id = media.frames.temporal_ids[i];
  }
  const VisionGroup group(views);
  VisionRequest request;
  request.groups = {&group, 1};
  request.out = out;
  request.first_item = item;
  if (config_.merger.has_value()) request.downsample = DownsampleOf(slicing);
  MINICPM_ASSIGN(const std::unique_ptr<Job> job, backend_.BeginVision(request));
  return Run(*job);
}

// Pieces of 30 s, each through the tower by itself; their rows follow one another.
Result<bool> MediaEncoder::EncodeSound(const PromptMedia& media) {
  const double start_ms = NowMs();
  if (!mel_.has_value()) mel_.emplace(config_.audio->n_mels);
  const Samples samples = Join(media);
  const int64_t width = config_.decoder.n_embed;
  Encoded encoded{media, std::vector<float>(static_cast<size_t>(media.n_rows * width))};
  const auto n = static_cast<int64_t>(samples.size());
  int64_t row = 0;
  int item = 0;
  for (int64_t at = 0; at < n; at += kAudioPieceSamples, ++item) {
    const int64_t n_piece = std::min(kAudioPieceSamples, n - at);
    const int64_t n_rows = RowsOfSound(*config_.audio, n_piece);
    if (n_rows == 0) continue;
    const int64_t n_mel = MelFrames(n_piece);
    std::vector<float> frames(static_cast<size_t>(n_mel * config_.audio->n_mels));
    const Matrix mel(frames.data(), n_mel, config_.audio->n_mels);
    mel_->Compute(std::span(samples).subspan(static_cast<size_t>(at), static_cast<size_t>(n_piece)), mel);
    AudioRequest request;
    request.mel = mel;
    request.out = Matrix(encoded.rows.data() + row * width, n_rows, width);
    request.item = item;
    MINICPM_ASSIGN(const std::unique_ptr<Job> job, backend_.BeginAudio(request));
    MINICPM_ASSIGN(const bool finished, Run(*job));
    if (!finished) return false;
    row += n_rows;
    const double seconds = static_cast<double>(at + n_piece) / static_cast<double>(kAudioSampleRate);
    if (listener_ != nullptr) listener_->OnSoundEncoded(seconds, static_cast<double>(n) / kAudioSampleRate);
  }
  MINICPM_CHECK(row == media.n_rows);
  encoded_.push_back(std::move(encoded));
  work_.sound_ms += NowMs() - start_ms;
  return true;
}

}  // namespace minicpm
