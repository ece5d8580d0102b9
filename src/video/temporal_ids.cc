// Frame choice and temporal ids of MiniCPM-V 4.5, in the reference's double arithmetic. Not for other families' rules.
#include "video/temporal_ids.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/py_round.h"
#include "video/nearest_tick.h"

namespace minicpm {
namespace {

constexpr double kTick = 0.1;                     // seconds
constexpr int64_t kMaxTicks = int64_t{10} << 20;  // twelve days

std::unexpected<Error> Invalid(const std::string& what) { return Fail(ErrorCode::kInvalidArgument, what); }

Status CheckVideo(int64_t n_frames, double fps) {
  if (n_frames < 1) return Invalid("a video must have at least one frame, found " + std::to_string(n_frames));
  if (!(fps > 0) || !(fps <= 1e6)) {
    return Invalid("a video's frame rate must be above 0 and at most 1000000, found " + std::to_string(fps));
  }
  const double seconds = static_cast<double>(n_frames) / fps;
  if (!(seconds <= static_cast<double>(kMaxTicks) * kTick)) {
    return Invalid("a video may last " + std::to_string(kMaxTicks / 10) + " s, found " + std::to_string(seconds));
  }
  return {};
}

// n of n_frames indices at equal distances, each in the middle of its share.
std::vector<int64_t> UniformSample(int64_t n_frames, int64_t n) {
  const double gap = static_cast<double>(n_frames) / static_cast<double>(n);
  std::vector<int64_t> frames(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    frames[i] = std::min(static_cast<int64_t>(static_cast<double>(i) * gap + gap / 2), n_frames - 1);
  }
  return frames;
}

}  // namespace

int32_t TemporalIdOfTick(int64_t index) {
  MINICPM_CHECK(index >= 0 && index <= kMaxTicks);
  return static_cast<int32_t>(static_cast<double>(index) * kTick / kTick);
}

Result<std::vector<int32_t>> TemporalIds(std::span<const int64_t> frames, int64_t n_frames, double fps) {
  MINICPM_TRY(CheckVideo(n_frames, fps));
  const double seconds = static_cast<double>(n_frames) / fps;
  // As many ticks as numpy's arange(0, seconds, 0.1) makes.
  const NearestTick nearest(std::max<int64_t>(1, static_cast<int64_t>(std::ceil(seconds / kTick))));
  std::vector<int32_t> ids;
  ids.reserve(frames.size());
  for (const int64_t frame : frames) {
    if (frame < 0 || frame >= n_frames) {
      return Invalid("frame " + std::to_string(frame) + " is not one of the video's " + std::to_string(n_frames));
    }
    ids.push_back(TemporalIdOfTick(nearest.Find(static_cast<double>(frame) / fps)));
  }
  return ids;
}

Result<FramePlan> PlanFrames(int64_t n_frames, double fps, const FrameRule& rule) {
  MINICPM_TRY(CheckVideo(n_frames, fps));
  if (!(rule.choose_fps > 0) || !(rule.choose_fps <= 1000) || rule.max_frames < 1 || rule.max_frames > 100000 ||
      rule.max_packing < 1 || rule.max_packing > 6 || rule.force_packing < 0) {
    return Invalid("frames per second must be above 0 and at most 1000, frames 1 to 100000, packing 1 to 6, found " +
                   std::to_string(rule.choose_fps) + ", " + std::to_string(rule.max_frames) + ", " +
                   std::to_string(rule.max_packing));
  }
  const double seconds = static_cast<double>(n_frames) / fps;
  const double max_frames = rule.max_frames;
  FramePlan plan;
  double count = 0;
  if (rule.choose_fps * std::trunc(seconds) <= max_frames) {
    count = PyRound(std::min(rule.choose_fps, PyRound(fps)) * std::min(max_frames, seconds));
  } else {
    const double packing = std::ceil(seconds * rule.choose_fps / max_frames);
    const bool fits = packing <= rule.max_packing;
    plan.packing = fits ? static_cast<int>(packing) : rule.max_packing;
    count = fits ? PyRound(seconds * rule.choose_fps) : max_frames * rule.max_packing;
  }
  if (rule.force_packing > 0) plan.packing = std::min(rule.force_packing, rule.max_packing);
  plan.frames = UniformSample(n_frames, std::max<int64_t>(1, static_cast<int64_t>(count)));
  MINICPM_ASSIGN(plan.temporal_ids, TemporalIds(plan.frames, n_frames, fps));
  return plan;
}

}  // namespace minicpm
