// Which frames of a video MiniCPM-V 4.5 looks at, how many share one set of tokens, and their temporal ids.
// Pure counting: not for opening videos or decoding frames. Rule: encode_video in the model card of MiniCPM-V 4.5.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace minicpm {

struct FrameRule {
  double choose_fps = 3;  // frames per second wanted
  int max_frames = 180;   // sets of tokens per video
  int max_packing = 3;    // frames per set; the model allows 1..6
  int force_packing = 0;  // 0: as many as needed
};

struct FramePlan {
  int packing = 1;                    // frames per group; the last group may be shorter
  std::vector<int64_t> frames;        // indices into the video, ascending, possibly repeated
  std::vector<int32_t> temporal_ids;  // of each frame, in tenths of a second, as the reference rounds
  int64_t n_groups() const { return (static_cast<int64_t>(frames.size()) + packing - 1) / packing; }
  // Temporal ids of group g. Requires: 0 <= g < n_groups().
  std::span<const int32_t> Group(int64_t g) const {
    const auto begin = static_cast<size_t>(g * packing);
    return std::span(temporal_ids).subspan(begin).first(std::min<size_t>(packing, temporal_ids.size() - begin));
  }
};

// A video of `n_frames` frames at an average of `fps`. Where the reference would choose no frame at all (shorter than a
// fraction of a second) and fail, this chooses one. Errors: kInvalidArgument for values no video can have.
Result<FramePlan> PlanFrames(int64_t n_frames, double fps, const FrameRule& rule = {});

// Temporal ids of given frames. Errors: as PlanFrames; a frame outside of the video.
Result<std::vector<int32_t>> TemporalIds(std::span<const int64_t> frames, int64_t n_frames, double fps);

// The id of time index * 0.1 s: (index * 0.1) / 0.1 in doubles, cut to an integer, which for some indices is one less.
int32_t TemporalIdOfTick(int64_t index);

}  // namespace minicpm
