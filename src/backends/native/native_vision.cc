// Implementation of native_vision.h. Only one view's encoder buffers exist at a time; a group's keys grow view by view.
#include "backends/native/native_vision.h"

#include <optional>
#include <string>
#include <vector>

#include "os/clock.h"

namespace minicpm {
namespace {

class VisionJob : public Job {
 public:
  VisionJob(const NativeModel& model, Compute& compute, const VisionRequest& request)
      : model_(model), compute_(compute), out_(request.out), item_(request.first_item) {
    for (const VisionGroup group : request.groups) groups_.emplace_back(group.begin(), group.end());
  }

  Result<bool> Step(double deadline_ms) override {
    while (group_ < groups_.size()) {
      compute_.arena().Reset();
      Piece();
      if (NowMs() >= deadline_ms) break;
    }
    return group_ == groups_.size();
  }
  int64_t groups_done() const override { return static_cast<int64_t>(group_); }

 private:
  void Piece() {
    const std::vector<VisionView>& group = groups_[group_];
    const ModelConfig& c = model_.config();
    if (!resampler_.has_value()) {
      int64_t n_keys = 0;
      for (const VisionView& view : group) n_keys += view.patches.rows;
      const int64_t q = c.resampler.n_queries;
      resampler_.emplace(c.resampler, model_.resampler(), n_keys, out_.Rows(static_cast<int64_t>(group_) * q, q),
                         item_);
    }
    const VisionView& view = group[view_];
    if (!encoder_.has_value()) {
      encoder_.emplace(c.vision, model_.vision(), view.patches, view.position_ids, item_);
      encoded_ = false;
    }
    if (!encoded_) {
      encoded_ = encoder_->Step(compute_);
      if (encoded_) {
        resampler_->AddView(encoder_->output(), view.grid_rows, view.grid_cols, view.temporal_id, item_);
      }
      return;
    }
    if (!resampler_->StepView(compute_)) return;
    encoder_.reset();
    ++item_;
    if (++view_ < group.size()) return;
    resampler_->Finish(compute_);
    resampler_.reset();
    view_ = 0;
    ++group_;
  }

  const NativeModel& model_;
  Compute& compute_;
  Matrix out_;
  std::vector<std::vector<VisionView>> groups_;
  size_t group_ = 0;
  size_t view_ = 0;  // inside the group
  int item_;
  bool encoded_ = false;
  std::optional<SiglipRun> encoder_;
  std::optional<ResamplerRun> resampler_;
};

// V 4.6: every view by itself through the encoder and the merger.
class MergingJob : public Job {
 public:
  MergingJob(const NativeModel& model, Compute& compute, const VisionRequest& request, int downsample)
      : model_(model), compute_(compute), out_(request.out), first_item_(request.first_item), downsample_(downsample) {
    for (const VisionGroup group : request.groups) views_.push_back(group.front());
  }

  Result<bool> Step(double deadline_ms) override {
    while (view_ < views_.size()) {
      compute_.arena().Reset();
      Piece();
      if (NowMs() >= deadline_ms) break;
    }
    return view_ == views_.size();
  }
  int64_t groups_done() const override { return static_cast<int64_t>(view_); }

 private:
  void Piece() {
    const ModelConfig& c = model_.config();
    const VisionView& view = views_[view_];
    const int item = first_item_ + static_cast<int>(view_);
    const bool windows = downsample_ == 16;
    if (!encoder_.has_value()) {
      encoder_.emplace(c.vision, model_.vision(), view.patches, view.position_ids, item);
      if (windows) encoder_->MergeWindowsOf(view.grid_cols);
    }
    if (!merger_.has_value()) {
      if (!encoder_->Step(compute_)) return;
      merger_.emplace(*c.merger, model_.merger(), encoder_->output(), view.grid_cols / (windows ? 2 : 1),
                      out_.Rows(row_, view.patches.rows / downsample_), item);
      return;
    }
    if (!merger_->Step(compute_)) return;
    row_ += view.patches.rows / downsample_;
    merger_.reset();
    encoder_.reset();
    ++view_;
  }

  const NativeModel& model_;
  Compute& compute_;
  Matrix out_;
  int first_item_;
  int downsample_;
  std::vector<VisionView> views_;
  size_t view_ = 0;
  int64_t row_ = 0;
  std::optional<SiglipRun> encoder_;
  std::optional<MergerRun> merger_;
};

Status CheckView(const ModelConfig& c, const VisionView& view) {
  const int64_t n = int64_t{view.grid_rows} * view.grid_cols;
  if (n < 1 || view.patches.rows != n || view.patches.cols != c.vision.n_patch_values()) {
    return Fail(ErrorCode::kInvalidArgument, "a view of " + std::to_string(view.grid_rows) + " x " +
                                                 std::to_string(view.grid_cols) + " patches must have rows of " +
                                                 std::to_string(c.vision.n_patch_values()) + " values");
  }
  const int64_t n_positions = c.vision.n_side() * c.vision.n_side();
  for (int64_t i = 0; i < n; ++i) {
    if (view.position_ids[i] < 0 || view.position_ids[i] >= n_positions) {
      return Fail(ErrorCode::kInvalidArgument, "a position id is outside the table of " + std::to_string(n_positions));
    }
  }
  return {};
}

Result<std::unique_ptr<Job>> NewMergingJob(const NativeModel& model, Compute& compute, const VisionRequest& request) {
  const ModelConfig& c = model.config();
  const auto downsample = static_cast<int>(request.downsample != 0 ? request.downsample : c.downsample);
  if (downsample != 16 && downsample != 4) {
    return Fail(ErrorCode::kInvalidArgument, "downsample must be 16 or 4, but is " + std::to_string(downsample));
  }
  const int side = downsample == 16 ? 4 : 2;
  int64_t rows = 0;
  for (const VisionGroup group : request.groups) {
    if (group.size() != 1) return Fail(ErrorCode::kInvalidArgument, "this model takes views one by one");
    const VisionView& view = group.front();
    MINICPM_TRY(CheckView(c, view));
    if (view.grid_rows % side != 0 || view.grid_cols % side != 0) {
      return Fail(ErrorCode::kInvalidArgument, "a view of " + std::to_string(view.grid_rows) + " x " +
                                                   std::to_string(view.grid_cols) + " patches is no whole number of " +
                                                   std::to_string(side) + " x " + std::to_string(side) + " windows");
    }
    rows += view.patches.rows / downsample;
  }
  if (request.out.rows != rows || request.out.cols != c.decoder.n_embed) {
    return Fail(ErrorCode::kInvalidArgument,
                "the output needs " + std::to_string(rows) + " rows of " + std::to_string(c.decoder.n_embed));
  }
  return std::make_unique<MergingJob>(model, compute, request, downsample);
}

}  // namespace

Result<std::unique_ptr<Job>> NewVisionJob(const NativeModel& model, Compute& compute, const VisionRequest& request) {
  const ModelConfig& c = model.config();
  if (c.merger.has_value()) return NewMergingJob(model, compute, request);
  const auto n_groups = static_cast<int64_t>(request.groups.size());
  if (request.out.rows != n_groups * c.resampler.n_queries || request.out.cols != c.decoder.n_embed) {
    return Fail(ErrorCode::kInvalidArgument, "the output needs " + std::to_string(c.resampler.n_queries) + " rows of " +
                                                 std::to_string(c.decoder.n_embed) + " per group");
  }
  for (const VisionGroup group : request.groups) {
    if (group.empty()) return Fail(ErrorCode::kInvalidArgument, "a group of views is empty");
    for (const VisionView& view : group) MINICPM_TRY(CheckView(c, view));
  }
  return std::make_unique<VisionJob>(model, compute, request);
}

}  // namespace minicpm
