// Writes text with a box behind it onto a picture, for people who look at it. Not for what a model sees.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "image/image.h"

namespace minicpm {

class FontSet;

struct TextStyle {
  int size_px = 0;                // 0: a 24th of the picture's height, from 10 to 64
  double max_height_share = 0.5;  // of the picture; longer text ends with an ellipsis
  std::array<uint8_t, 3> ink = {255, 255, 255};
  std::array<uint8_t, 3> box = {0, 0, 0};
  int box_opacity = 160;  // 0..255
};

struct DrawnBox {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

// Threads: one user at a time.
class TextDrawer {
 public:
  // font_file: a TrueType or OpenType file; "": for each character a font of this machine that has it.
  // Errors: kNotFound when no font is installed, kNotFound or kCorrupt for a file.
  static Result<std::unique_ptr<TextDrawer>> Create(const std::string& font_file);
  ~TextDrawer();

  // Draws `text` (UTF-8 of any length and content) at the bottom left, over the picture. Returns the box: outside of
  // it no pixel changes. Empty when there is nothing to draw or the picture is too small for a line. No shaping:
  // scripts that join or reorder their letters are drawn letter by letter, from left to right.
  DrawnBox Draw(std::string_view text, const TextStyle& style, Image& image);

 private:
  // The newest text as grey coverage of its box: frame after frame shows the same words.
  struct Mask {
    std::string text;
    int size_px = 0;
    int max_width = 0;
    int max_height = 0;
    int width = 0;
    int height = 0;
    std::vector<uint8_t> coverage;  // [height * width]
  };
  explicit TextDrawer(std::unique_ptr<FontSet> fonts);
  void MakeMask(std::string_view text, int size_px, int max_width, int max_height);

  std::unique_ptr<FontSet> fonts_;
  Mask mask_;
};

}  // namespace minicpm
