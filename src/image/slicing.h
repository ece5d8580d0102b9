// Which views of a picture the model sees, and those views' patches. Knows no model class: everything comes in as
// parameters. The rules are those of the models' image_processing_minicpmv.py; halves round to even, truncations in its
// order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "image/image.h"
#include "tensor/tensor.h"

namespace minicpm {

struct SliceConfig {
  int max_slices = 9;  // slice_config.max_slice_nums
  int scale_resolution = 448;
  int patch = 14;
  int divisor = 14;        // 14 for V 2.6 / 4.5 / o 4.5; of V 4.6 56, or 28 where 4 patches become a row instead of 16
  bool slice_mode = true;  // false: the picture goes in unresized and must be a multiple of `patch`
  ResizeRounding rounding = ResizeRounding::kPillow;
};

struct Size {
  int width = 0;
  int height = 0;
  bool operator==(const Size&) const = default;
};

struct SlicePlan {
  Size overview;
  int cols = 0;  // 0 x 0: no slices
  int rows = 0;
  Size slice;  // of each slice, when cols > 0
  int n_views() const { return 1 + cols * rows; }
};

// For values that come from a file: kInvalidArgument names the field, its allowed range and what was found.
Status CheckSliceConfig(const SliceConfig& config);

// Requires: width, height >= 1; a config that passes CheckSliceConfig.
SlicePlan PlanSlices(Size image, const SliceConfig& config);

// Views in order: overview, then slices row by row. Errors: kInvalidArgument when slice_mode is off and the size is not
// a multiple.
Result<std::vector<Image>> CutViews(const Image& image, const SlicePlan& plan, const SliceConfig& config);

// A view as normalised patches: [rows * cols of patches, 3 * patch * patch] f32 in (channel, y, x) order, row-major
// patches; value = (v / 255 - mean) / std per channel. `out` must have the right size.
struct PatchGrid {
  int rows = 0;
  int cols = 0;
  int64_t count() const { return int64_t{rows} * cols; }
};
PatchGrid GridOf(Size view, int patch);
void FillPatches(const Image& view, int patch, const float mean[3], const float stddev[3], Matrix out);

// How a patch's place along an axis becomes a number in [0, 1).
enum class PositionRule {
  kArange,  // modeling_navit_siglip.py of V 2.6 / 4.5 / o 4.5: a float arange as torch runs it with AVX2 (decides ties)
  kDivision,  // V 4.6: i / n in float
};
// Row of the learned position table for each patch, row-major. n_side = 70. out[grid.count()].
void FillPositionIds(PatchGrid grid, int n_side, int32_t* out, PositionRule rule = PositionRule::kArange);

}  // namespace minicpm
