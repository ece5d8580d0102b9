// Slice plans, views, patches and position rows, as image_processing_minicpmv.py and modeling_navit_siglip.py compute
// them: Python's rounding and truncation are spelled out in double arithmetic. Not for decoding or models.
#include "image/slicing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/py_round.h"

namespace minicpm {
namespace {

// Nearest multiple of divisor (halves to the even multiple), at least one. `length` may be fractional.
int64_t EnsureDivide(double length, int divisor) {
  return std::max(static_cast<int64_t>(PyRound(length / divisor)) * divisor, int64_t{divisor});
}

struct SizeD {
  double width;
  double height;
};

// About scale x scale pixels in the same shape. The height is truncated first, the width follows from it.
Size BestSize(SizeD size, const SliceConfig& config, bool upscale) {
  const double scale = config.scale_resolution;
  if (size.width * size.height > scale * scale || upscale) {
    const double ratio = size.width / size.height;
    size.height = std::trunc(scale / std::sqrt(ratio));
    size.width = std::trunc(size.height * ratio);
  }
  return {static_cast<int>(EnsureDivide(size.width, config.divisor)),
          static_cast<int>(EnsureDivide(size.height, config.divisor))};
}

struct Grid {
  int cols = 0;
  int rows = 0;
};

// 0 x 0 when one view is enough. First of the candidates wins a tie.
Grid BestGrid(Size size, const SliceConfig& config) {
  const double scale = config.scale_resolution;
  const double ratio = static_cast<double>(int64_t{size.width} * size.height) / (scale * scale);
  const int multiple = static_cast<int>(std::min(std::ceil(ratio), static_cast<double>(config.max_slices)));
  if (multiple <= 1) return {};
  const double wanted = std::log(static_cast<double>(size.width) / size.height);
  Grid best{.cols = 1, .rows = 1};
  double best_error = HUGE_VAL;
  for (int64_t n = int64_t{multiple} - 1; n <= int64_t{multiple} + 1; ++n) {
    if (n == 1 || n > config.max_slices) continue;
    for (int64_t cols = 1; cols <= n; ++cols) {
      if (n % cols != 0) continue;
      const int64_t rows = n / cols;
      const double error = std::fabs(wanted - std::log(static_cast<double>(cols) / static_cast<double>(rows)));
      if (error < best_error) {
        best = {.cols = static_cast<int>(cols), .rows = static_cast<int>(rows)};
        best_error = error;
      }
    }
  }
  return best;
}

Image Cut(const Image& image, int x, int y, Size size) {
  Image cell{.width = size.width, .height = size.height, .rgb = {}};
  const size_t row_bytes = size_t{3} * size.width;
  cell.rgb.resize(row_bytes * size.height);
  for (int r = 0; r < size.height; ++r) {
    const size_t from = size_t{3} * (static_cast<size_t>(y + r) * image.width + x);
    std::memcpy(cell.rgb.data() + row_bytes * r, image.rgb.data() + from, row_bytes);
  }
  return cell;
}

// Bucket of patch i of n along one axis: how many of the boundaries j / n_side, j = 1 .. n_side - 1, are <= its
// coordinate. The coordinates are torch.arange(0, 1 - 1e-6, 1 / n) in float32, whose rounding (AVX2: blocks of 8 lanes
// from a rounded block start, the tail one by one) decides where i / n falls on a boundary.
std::vector<int32_t> PositionBuckets(int n, int n_side, PositionRule rule) {
  std::vector<float> boundaries(n_side - 1);
  const double side = 1.0 / n_side;
  for (int j = 0; j < n_side - 1; ++j) boundaries[j] = static_cast<float>(side + j * side);
  std::vector<int32_t> buckets(n);
  const auto step = static_cast<double>(1.0F / static_cast<float>(n));
  const int n_blocked = n / 8 * 8;
  for (int i = 0; i < n; ++i) {
    const int start = i / 8 * 8;
    float value = i < n_blocked ? static_cast<float>(static_cast<float>(start * step) + (i - start) * step)
                                : static_cast<float>(i * step);
    if (rule == PositionRule::kDivision) value = static_cast<float>(i) / static_cast<float>(n);
    buckets[i] =
        static_cast<int32_t>(std::upper_bound(boundaries.begin(), boundaries.end(), value) - boundaries.begin());
  }
  return buckets;
}

Status CheckRange(const char* field, int value, int max) {
  if (value >= 1 && value <= max) return {};
  return Fail(ErrorCode::kInvalidArgument, std::string(field) + " must be between 1 and " + std::to_string(max) +
                                               ", found " + std::to_string(value));
}

}  // namespace

Status CheckSliceConfig(const SliceConfig& config) {
  MINICPM_TRY(CheckRange("max_slice_nums", config.max_slices, 1024));
  MINICPM_TRY(CheckRange("scale_resolution", config.scale_resolution, 16384));  // keeps every size within an int
  MINICPM_TRY(CheckRange("patch_size", config.patch, 1024));
  MINICPM_TRY(CheckRange("slice divisor", config.divisor, 65536));
  if (config.divisor % config.patch == 0) return {};
  return Fail(ErrorCode::kInvalidArgument, "slice divisor must be a multiple of patch_size " +
                                               std::to_string(config.patch) + ", found " +
                                               std::to_string(config.divisor));
}

SlicePlan PlanSlices(Size image, const SliceConfig& config) {
  MINICPM_CHECK(image.width >= 1 && image.height >= 1);
  MINICPM_CHECK(CheckSliceConfig(config).has_value());
  SlicePlan plan;
  if (!config.slice_mode) {
    plan.overview = image;
    return plan;
  }
  const SizeD size{static_cast<double>(image.width), static_cast<double>(image.height)};
  const Grid grid = BestGrid(image, config);
  plan.overview = BestSize(size, config, /*upscale=*/grid.cols == 0);
  if (grid.cols == 0) return plan;
  plan.cols = grid.cols;
  plan.rows = grid.rows;
  // A cell's size is worked out from a size that the grid divides, and may be fractional only before rounding.
  const SizeD cell{static_cast<double>(EnsureDivide(size.width, grid.cols)) / grid.cols,
                   static_cast<double>(EnsureDivide(size.height, grid.rows)) / grid.rows};
  plan.slice = BestSize(cell, config, /*upscale=*/true);
  return plan;
}

Result<std::vector<Image>> CutViews(const Image& image, const SlicePlan& plan, const SliceConfig& config) {
  std::vector<Image> views;
  if (!config.slice_mode) {
    if (image.width % config.patch != 0 || image.height % config.patch != 0) {
      return Fail(ErrorCode::kInvalidArgument, "without slicing the picture's width and height must be multiples of " +
                                                   std::to_string(config.patch) + ", found " +
                                                   std::to_string(image.width) + " x " + std::to_string(image.height));
    }
    views.push_back(image);
    return views;
  }
  views.reserve(plan.n_views());
  views.push_back(ResizeBicubic(image, plan.overview.width, plan.overview.height, config.rounding));
  if (plan.cols == 0) return views;
  const Image refined =
      ResizeBicubic(image, plan.slice.width * plan.cols, plan.slice.height * plan.rows, config.rounding);
  for (int row = 0; row < plan.rows; ++row) {
    for (int col = 0; col < plan.cols; ++col) {
      views.push_back(Cut(refined, col * plan.slice.width, row * plan.slice.height, plan.slice));
    }
  }
  return views;
}

PatchGrid GridOf(Size view, int patch) {
  MINICPM_CHECK(patch >= 1 && view.width % patch == 0 && view.height % patch == 0);
  return {.rows = view.height / patch, .cols = view.width / patch};
}

void FillPatches(const Image& view, int patch, const float mean[3], const float stddev[3], Matrix out) {
  const PatchGrid grid = GridOf({view.width, view.height}, patch);
  MINICPM_CHECK(out.rows == grid.count() && out.cols == int64_t{3} * patch * patch);
  float value[3][256];
  for (int c = 0; c < 3; ++c) {
    for (int v = 0; v < 256; ++v) value[c][v] = (static_cast<float>(v) / 255.0F - mean[c]) / stddev[c];
  }
  for (int row = 0; row < grid.rows; ++row) {
    for (int col = 0; col < grid.cols; ++col) {
      float* to = out.row(int64_t{row} * grid.cols + col);
      for (int c = 0; c < 3; ++c) {
        for (int y = 0; y < patch; ++y) {
          const size_t at = static_cast<size_t>(int64_t{row} * patch + y) * view.width + size_t{1} * col * patch;
          const uint8_t* from = view.rgb.data() + 3 * at + c;
          for (int x = 0; x < patch; ++x) *to++ = value[c][from[3 * x]];
        }
      }
    }
  }
}

void FillPositionIds(PatchGrid grid, int n_side, int32_t* out, PositionRule rule) {
  MINICPM_CHECK(grid.rows >= 1 && grid.cols >= 1 && n_side >= 2);
  const std::vector<int32_t> row_bucket = PositionBuckets(grid.rows, n_side, rule);
  const std::vector<int32_t> col_bucket = PositionBuckets(grid.cols, n_side, rule);
  for (int row = 0; row < grid.rows; ++row) {
    for (int col = 0; col < grid.cols; ++col) *out++ = row_bucket[row] * n_side + col_bucket[col];
  }
}

}  // namespace minicpm
