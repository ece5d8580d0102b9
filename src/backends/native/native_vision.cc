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

}  // namespace

Result<std::unique_ptr<Job>> NewVisionJob(const NativeModel& model, Compute& compute, const VisionRequest& request) {
  const ModelConfig& c = model.config();
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
