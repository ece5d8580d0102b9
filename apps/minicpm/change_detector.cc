// Implementation of change_detector.h. Whole numbers only, so that every machine measures the same.
#include "change_detector.h"

#include <algorithm>
#include <cstdlib>

namespace minicpm::cli {
namespace {

constexpr int kCells = ChangeDetector::kCells;

// Pixels [begin, end) of cell `i` of `size` pixels; cells of a small picture share pixels rather than being empty.
struct Range {
  int begin;
  int end;
};
Range CellRange(int i, int size) {
  const auto begin = static_cast<int>(int64_t{i} * size / kCells);
  const auto end = static_cast<int>(int64_t{i + 1} * size / kCells);
  return {begin, std::max(end, begin + 1)};
}

// The cell's mean of 77 R + 150 G + 29 B, which is 256 times its grey level.
uint32_t CellMean(const Image& image, const Range& x, const Range& y) {
  uint64_t sum = 0;
  for (int row = y.begin; row < y.end; ++row) {
    const uint8_t* pixel = image.rgb.data() + 3 * (static_cast<size_t>(row) * image.width + x.begin);
    uint32_t row_red = 0;
    uint32_t row_green = 0;
    uint32_t row_blue = 0;
    for (int column = x.begin; column < x.end; ++column, pixel += 3) {
      row_red += pixel[0];
      row_green += pixel[1];
      row_blue += pixel[2];
    }
    sum += uint64_t{77} * row_red + uint64_t{150} * row_green + uint64_t{29} * row_blue;
  }
  const auto n = static_cast<uint64_t>(x.end - x.begin) * static_cast<uint64_t>(y.end - y.begin);
  return static_cast<uint32_t>((sum + n / 2) / n);
}

}  // namespace

std::optional<double> ChangeDetector::Measure(const Image& image) {
  last_.width = image.width;
  last_.height = image.height;
  for (int row = 0; row < kCells; ++row) {
    for (int column = 0; column < kCells; ++column) {
      last_.cells[static_cast<size_t>(row) * kCells + column] =
          CellMean(image, CellRange(column, image.width), CellRange(row, image.height));
    }
  }
  if (reference_.width == 0) return std::nullopt;
  if (last_.width != reference_.width || last_.height != reference_.height) return 255.0;
  int largest = 0;
  for (size_t i = 0; i < last_.cells.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<int>(last_.cells[i]) - static_cast<int>(reference_.cells[i])));
  }
  return largest / 256.0;
}

}  // namespace minicpm::cli
