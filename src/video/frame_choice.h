// Which frames of a video each family looks at, how they are grouped, and which sound belongs to them. Pure counting:
// not for opening or decoding. Rules: the model cards' and helper packages' video code, family by family.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"

namespace minicpm {

enum class VideoRule {
  kEverySecond,  // V 2.6: every round(fps)-th frame, at most 64, thinned out evenly
  kPacked,       // V 4.5: up to 3 frames per second in groups that share their tokens (temporal_ids.h)
  kWithSound,    // o 4.5: one per second with the sound up to the next; above 64 s 64 frames over the whole length
};

struct VideoChoiceOptions {
  std::optional<double> fps;      // kPacked: frames per second wanted (3)
  std::optional<int> max_frames;  // 64, 180 groups, 64
  std::optional<int> packing;     // kPacked: frames per group, 1 to 6; unset: as many as needed, at most 3
  int stack = 1;                  // kWithSound: N > 1 adds a composite of N - 1 frames between two seconds
};

// One picture, composite or group of frames, in the order of the prompt.
struct VideoGroup {
  std::vector<int64_t> frames;        // indices into the video; a composite's cells in order
  std::vector<int32_t> temporal_ids;  // of each frame; empty: still pictures without time
  bool composite = false;             // frames are drawn into one picture
  // Samples at 16 kHz that follow this picture; both 0: none. The track may end earlier, and the last stretch may be
  // shorter than the 1600 samples that the model's helper pads it to: whoever cuts the sound clamps and pads.
  int64_t sound_begin = 0;
  int64_t sound_end = 0;
};

// Requires: values that OpenVideo gives. Errors: kInvalidArgument for options out of range.
Result<std::vector<VideoGroup>> ChooseFrames(int64_t n_frames, double fps, VideoRule rule,
                                             const VideoChoiceOptions& options);

}  // namespace minicpm
