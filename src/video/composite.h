// Several frames drawn into one picture, as MiniCPM-o's helper stacks the frames between two seconds. Not for choosing
// them (frame_choice.h) or for text on frames.
#pragma once

#include <span>

#include "image/image.h"
#include "image/slicing.h"

namespace minicpm {

struct CompositeGrid {
  int rows = 1;
  int cols = 1;
};

// 2 frames side by side or one above the other, 3 in a row or a column, whichever canvas is nearer to a square; 4 in
// two rows; any other number in one row. Requires: n >= 1, a cell of at least 1 x 1.
CompositeGrid GridOfComposite(Size cell, int n);

// Size of the picture for n frames of one size: cells with 6 black pixels between them.
Size CompositeSize(Size frame, int n);

// Cells have the largest width and height; a smaller frame is scaled to fit and stands in the middle of white.
// Requires: at least one frame, none empty.
Image Compose(std::span<const Image> frames);

}  // namespace minicpm
