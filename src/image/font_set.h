// FontSet: for every character a font of this machine that has it, as grey pictures of glyphs. Built on FreeType and
// fontconfig. Not for lines or colours (text_layout.h, draw_text.h). Internal to the drawing of text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace minicpm {

// Threads: one user at a time.
class FontSet {
 public:
  // font_file: only this font; "": the system's sans-serif fonts, the preferred first.
  // Errors: kNotFound when no scalable font is installed, kNotFound or kCorrupt for a file.
  static Result<std::unique_ptr<FontSet>> Create(const std::string& font_file);
  ~FontSet();

  // Height of a capital line of text, from now on. Requires: 1 <= size_px <= 1000.
  void SetSize(int size_px);
  // Of the preferred font at this size, in px: above the baseline, below it (positive), from line to line.
  struct Metrics {
    int ascent = 0;
    int descent = 0;
    int line = 0;
  };
  Metrics metrics();

  // In 1/64 px, kerning with `previous` included (0: none).
  int64_t Advance(char32_t previous, char32_t c);
  // 8-bit coverage, row after row, `stride` bytes apart. Left and top count from the pen, top upwards.
  // Lifetime of pixels: until the next call.
  struct Glyph {
    std::span<const uint8_t> coverage;
    int width = 0;
    int height = 0;
    int stride = 0;
    int left = 0;
    int top = 0;
  };
  // A character that no font has is drawn as the preferred font's sign for that.
  Glyph Render(char32_t c);

 private:
  struct Impl;
  explicit FontSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
