// Layout and drawing of composites. Rules: concat_images of MiniCPM-o's helper package.
#include "video/composite.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/py_round.h"

namespace minicpm {
namespace {

constexpr int kLine = 6;  // pixels between cells

int Along(int cell, int n) { return n * cell + (n - 1) * kLine; }

double FromSquare(Size cell, CompositeGrid grid) {
  const double ratio = static_cast<double>(Along(cell.width, grid.cols)) / Along(cell.height, grid.rows);
  return std::abs(ratio - 1.0);
}

int Scaled(int length, double scale) { return std::max(1, static_cast<int>(PyRound(length * scale))); }

// Copies `from` into `to` with its upper left corner at (left, top). Requires: it fits.
void Paste(const Image& from, int left, int top, Image& to) {
  for (int y = 0; y < from.height; ++y) {
    const auto row = from.rgb.begin() + std::ptrdiff_t{3} * y * from.width;
    std::copy_n(row, std::ptrdiff_t{3} * from.width,
                to.rgb.begin() + std::ptrdiff_t{3} * (static_cast<std::ptrdiff_t>(top + y) * to.width + left));
  }
}

void PasteIntoCell(const Image& frame, Size cell, int left, int top, Image& canvas) {
  if (frame.width == cell.width && frame.height == cell.height) {
    Paste(frame, left, top, canvas);
    return;
  }
  const double scale =
      std::min(static_cast<double>(cell.width) / frame.width, static_cast<double>(cell.height) / frame.height);
  const Image fitted = ResizeBicubic(frame, Scaled(frame.width, scale), Scaled(frame.height, scale));
  Image white{cell.width, cell.height, std::vector<uint8_t>(size_t{3} * cell.width * cell.height, 255)};
  Paste(fitted, (cell.width - fitted.width) / 2, (cell.height - fitted.height) / 2, white);
  Paste(white, left, top, canvas);
}

}  // namespace

CompositeGrid GridOfComposite(Size cell, int n) {
  MINICPM_CHECK(n >= 1 && cell.width >= 1 && cell.height >= 1);
  if (n == 4) return {.rows = 2, .cols = 2};
  const CompositeGrid row{.rows = 1, .cols = n};
  if (n != 2 && n != 3) return row;
  const CompositeGrid column{.rows = n, .cols = 1};
  const double of_row = FromSquare(cell, row);
  const double of_column = FromSquare(cell, column);
  // Equally far from a square: two frames lie beside each other unless they are upright; three always.
  if (of_row == of_column) return n == 2 && cell.width < cell.height ? column : row;
  return of_row < of_column ? row : column;
}

Size CompositeSize(Size frame, int n) {
  const CompositeGrid grid = GridOfComposite(frame, n);
  return {Along(frame.width, grid.cols), Along(frame.height, grid.rows)};
}

Image Compose(std::span<const Image> frames) {
  MINICPM_CHECK(!frames.empty());
  Size cell{1, 1};
  for (const Image& frame : frames) {
    MINICPM_CHECK(frame.width >= 1 && frame.height >= 1);
    cell = {std::max(cell.width, frame.width), std::max(cell.height, frame.height)};
  }
  const int n = static_cast<int>(frames.size());
  const CompositeGrid grid = GridOfComposite(cell, n);
  const Size size = CompositeSize(cell, n);
  Image canvas{size.width, size.height, std::vector<uint8_t>(size_t{3} * size.width * size.height, 0)};
  for (int i = 0; i < n; ++i) {
    PasteIntoCell(frames[i], cell, i % grid.cols * (cell.width + kLine), i / grid.cols * (cell.height + kLine), canvas);
  }
  return canvas;
}

}  // namespace minicpm
