// The three families' frame choices in the doubles of their Python helpers, truncations included. Not for temporal ids
// (temporal_ids.h) or for drawing composites (composite.h).
#include "video/frame_choice.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "audio/token_count.h"
#include "base/py_round.h"
#include "video/temporal_ids.h"

namespace minicpm {
namespace {

constexpr int kMostFrames = 100'000;
constexpr int kMostPacking = 6;
constexpr int kMostStacked = 16;
constexpr double kLongestSeconds = 1e6;
constexpr double kTick = 0.1;  // seconds; what long videos are sampled from

std::unexpected<Error> Invalid(const std::string& what) { return Fail(ErrorCode::kInvalidArgument, what); }

Status CheckVideo(int64_t n_frames, double fps) {
  if (n_frames < 1) return Invalid("a video must have at least one frame, found " + std::to_string(n_frames));
  if (!(fps > 0) || !(fps <= 1e6)) {
    return Invalid("a video's frame rate must be above 0 and at most 1000000, found " + std::to_string(fps));
  }
  if (const double seconds = static_cast<double>(n_frames) / fps; !(seconds <= kLongestSeconds)) {
    return Invalid("a video may last 1000000 s, found " + std::to_string(seconds));
  }
  return {};
}

Status CheckOptions(VideoRule rule, const VideoChoiceOptions& options) {
  if (options.max_frames.has_value() && (*options.max_frames < 1 || *options.max_frames > kMostFrames)) {
    return Invalid("the most frames of a video must be 1 to " + std::to_string(kMostFrames) + ", found " +
                   std::to_string(*options.max_frames));
  }
  if (options.fps.has_value() && rule != VideoRule::kPacked) {
    return Invalid(
        "this family looks at one frame per second, another number can only be chosen where frames are packed");
  }
  if (options.fps.has_value() && (!(*options.fps > 0) || !(*options.fps <= 1000))) {
    return Invalid("frames per second must be above 0 and at most 1000, found " + std::to_string(*options.fps));
  }
  if (options.packing.has_value() && rule != VideoRule::kPacked) {
    return Invalid("this family does not pack frames into groups");
  }
  if (options.packing.has_value() && (*options.packing < 1 || *options.packing > kMostPacking)) {
    return Invalid("frames per group must be 1 to 6, found " + std::to_string(*options.packing));
  }
  if (options.stack < 1 || options.stack > kMostStacked) {
    return Invalid("frames stacked per second must be 1 to 16, found " + std::to_string(options.stack));
  }
  if (options.stack > 1 && rule != VideoRule::kWithSound) {
    return Invalid("this family does not stack the frames within a second, only the one that hears does");
  }
  return {};
}

int64_t Truncated(double x) { return static_cast<int64_t>(x); }

// Item i of numpy's linspace(0, n - 1, wanted, dtype=int). Requires: 0 <= i < wanted.
int64_t LinspaceItem(int64_t i, int64_t n, int64_t wanted) {
  if (wanted == 1) return 0;
  if (i == wanted - 1) return n - 1;
  const double step = static_cast<double>(n - 1) / static_cast<double>(wanted - 1);
  return Truncated(std::floor(static_cast<double>(i) * step));
}

std::vector<VideoGroup> EverySecond(int64_t n_frames, double fps, int64_t most) {
  // Below half a frame per second the helper's step would be 0, which it cannot take; every frame then.
  const int64_t step = std::max<int64_t>(1, Truncated(PyRound(fps)));
  const int64_t n = (n_frames + step - 1) / step;
  const int64_t chosen = std::min(n, most);
  const double gap = static_cast<double>(n) / static_cast<double>(chosen);
  std::vector<VideoGroup> groups(static_cast<size_t>(chosen));
  for (int64_t i = 0; i < chosen; ++i) {
    const int64_t place = n > most ? std::min(Truncated(static_cast<double>(i) * gap + gap / 2), n - 1) : i;
    groups[i].frames = {place * step};
  }
  return groups;
}

Result<std::vector<VideoGroup>> Packed(int64_t n_frames, double fps, const VideoChoiceOptions& options) {
  FrameRule rule;
  rule.choose_fps = options.fps.value_or(rule.choose_fps);
  rule.max_frames = options.max_frames.value_or(rule.max_frames);
  rule.force_packing = options.packing.value_or(0);
  rule.max_packing = std::max(rule.max_packing, rule.force_packing);
  MINICPM_ASSIGN(const FramePlan plan, PlanFrames(n_frames, fps, rule));
  std::vector<VideoGroup> groups(static_cast<size_t>(plan.n_groups()));
  for (int64_t g = 0; g < plan.n_groups(); ++g) {
    const auto ids = plan.Group(g);
    const auto first = plan.frames.begin() + g * plan.packing;
    groups[g].frames.assign(first, first + static_cast<std::ptrdiff_t>(ids.size()));
    groups[g].temporal_ids.assign(ids.begin(), ids.end());
  }
  return groups;
}

// The frames between whole seconds, by second. What the helper does, it does by second from the start also for long
// videos, whose other frames lie further apart than a second: composite i follows frame i and shows second i.
class Stacks {
 public:
  Stacks(int64_t n_frames, double fps, int stack, int64_t most_seconds) : n_frames_(n_frames), fps_(fps), n_(stack) {
    const double duration = static_cast<double>(n_frames) / fps;
    const int64_t n_seconds = Truncated(std::ceil(duration));
    total_ = (n_seconds - 1) * (n_ - 1);
    for (int i = 1; i < n_; ++i) total_ += TimeOf((n_seconds - 1) * (n_ - 1) + i - 1) < duration ? 1 : 0;
    chosen_ = std::min(total_, most_seconds * (n_ - 1));
  }

  // Of one second after the other. Empty: no frame of it was chosen.
  std::vector<int64_t> Next() {
    const double end = static_cast<double>(++second_);
    std::vector<int64_t> frames;
    for (; next_ < chosen_; ++next_) {
      const double time = TimeOf(total_ > chosen_ ? LinspaceItem(next_, total_, chosen_) : next_);
      if (!(time < end)) break;
      frames.push_back(std::min(Truncated(time * fps_), n_frames_ - 1));
    }
    return frames;
  }

 private:
  // Of sub-frame k: second k / (n - 1) and a part of the next.
  double TimeOf(int64_t k) const {
    const int64_t part = k % (n_ - 1) + 1;
    return static_cast<double>(k / (n_ - 1)) + static_cast<double>(part) / static_cast<double>(n_);
  }

  int64_t n_frames_;
  double fps_;
  int64_t n_;
  int64_t total_ = 0;
  int64_t chosen_ = 0;
  int64_t next_ = 0;
  int64_t second_ = 0;
};

std::vector<VideoGroup> WithSound(int64_t n_frames, double fps, int64_t most, int stack) {
  const double duration = static_cast<double>(n_frames) / fps;
  const bool is_long = duration > static_cast<double>(most);
  const int64_t n_ticks = Truncated(duration / kTick);
  const int64_t n = is_long ? std::min(n_ticks, most) : Truncated(std::ceil(duration));
  const auto time = [&](int64_t i) {
    if (!is_long) return static_cast<double>(i);
    // The nearest double to a tenth, as Python's round(i * 0.1, 1).
    return static_cast<double>(n_ticks > most ? LinspaceItem(i, n_ticks, most) : i) / 10.0;
  };
  const auto sample = [](double seconds) { return Truncated(seconds * static_cast<double>(kAudioSampleRate)); };
  std::vector<VideoGroup> groups;
  Stacks stacks(n_frames, fps, std::max(stack, 2), most);
  for (int64_t i = 0; i < n; ++i) {
    VideoGroup group;
    group.frames = {std::min(Truncated(time(i) * fps), n_frames - 1)};
    group.sound_begin = sample(time(i));
    group.sound_end = sample(i + 1 < n ? time(i + 1) : duration);
    groups.push_back(std::move(group));
    if (stack == 1) continue;
    if (auto frames = stacks.Next(); !frames.empty()) {
      groups.push_back({.frames = std::move(frames), .temporal_ids = {}, .composite = true});
    }
  }
  return groups;
}

}  // namespace

Result<std::vector<VideoGroup>> ChooseFrames(int64_t n_frames, double fps, VideoRule rule,
                                             const VideoChoiceOptions& options) {
  MINICPM_TRY(CheckVideo(n_frames, fps));
  MINICPM_TRY(CheckOptions(rule, options));
  switch (rule) {
    case VideoRule::kEverySecond:
      return EverySecond(n_frames, fps, options.max_frames.value_or(64));
    case VideoRule::kPacked:
      return Packed(n_frames, fps, options);
    case VideoRule::kWithSound:
      return WithSound(n_frames, fps, options.max_frames.value_or(64), options.stack);
  }
  return Invalid("an unknown rule for videos");
}

}  // namespace minicpm
