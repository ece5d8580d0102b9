// Implementation of draw_text.h.
#include "image/draw_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "image/font_set.h"
#include "image/text_layout.h"

namespace minicpm {
namespace {

constexpr int kLeastSize = 10;
constexpr int kLargestSize = 64;

uint8_t Mix(uint8_t under, uint8_t over, int alpha) {
  return static_cast<uint8_t>((under * (255 - alpha) + over * alpha + 127) / 255);
}

// Adds a glyph whose pen stands at (x, y), as far as it lies inside of the mask.
void AddGlyph(const FontSet::Glyph& glyph, int x, int y, int width, int height, std::vector<uint8_t>& mask) {
  const int left = x + glyph.left;
  const int top = y - glyph.top;
  const int x_begin = std::max(left, 0);
  const int x_end = std::min(left + glyph.width, width);
  const int y_end = std::min(top + glyph.height, height);
  for (int row = std::max(top, 0); row < y_end; ++row) {
    const uint8_t* coverage = glyph.coverage.data() + static_cast<size_t>(row - top) * glyph.stride;
    uint8_t* out = mask.data() + static_cast<size_t>(row) * width;
    for (int column = x_begin; column < x_end; ++column) {
      out[column] = std::max(out[column], coverage[column - left]);
    }
  }
}

}  // namespace

TextDrawer::TextDrawer(std::unique_ptr<FontSet> fonts) : fonts_(std::move(fonts)) {}
TextDrawer::~TextDrawer() = default;

Result<std::unique_ptr<TextDrawer>> TextDrawer::Create(const std::string& font_file) {
  MINICPM_ASSIGN(auto fonts, FontSet::Create(font_file));
  return std::unique_ptr<TextDrawer>(new TextDrawer(std::move(fonts)));
}

void TextDrawer::MakeMask(std::string_view text, int size_px, int max_width, int max_height) {
  mask_ = Mask();
  mask_.text = text;
  mask_.size_px = size_px;
  mask_.max_width = max_width;
  mask_.max_height = max_height;
  fonts_->SetSize(size_px);
  const FontSet::Metrics metrics = fonts_->metrics();
  const int padding = std::max(size_px / 3, 1);
  const int room_x = max_width - 2 * padding;
  const int room_y = max_height - 2 * padding;
  if (room_x < size_px || room_y < metrics.line || metrics.line < 1) return;

  const auto advance = [this](char32_t previous, char32_t c) { return fonts_->Advance(previous, c); };
  const std::vector<std::u32string> lines =
      WrapText(DrawableText(text), int64_t{64} * room_x, static_cast<size_t>(room_y / metrics.line), advance);
  // Where each character's pen stands; kerning moves the character itself.
  std::vector<std::vector<int64_t>> pens;
  int64_t widest = 0;
  for (const std::u32string& line : lines) {
    std::vector<int64_t>& x = pens.emplace_back();
    int64_t end = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      const int64_t alone = advance(0, line[i]);
      end += i > 0 ? advance(line[i - 1], line[i]) : alone;
      x.push_back(end - alone);
    }
    widest = std::max(widest, end);
  }
  if (widest == 0) return;
  mask_.width = std::min(static_cast<int>(std::min<int64_t>((widest + 63) / 64, room_x)) + 2 * padding, max_width);
  mask_.height = static_cast<int>(lines.size()) * metrics.line + 2 * padding;
  mask_.coverage.assign(static_cast<size_t>(mask_.width) * mask_.height, 0);
  for (size_t l = 0; l < lines.size(); ++l) {
    const int baseline = padding + metrics.ascent + static_cast<int>(l) * metrics.line;
    for (size_t i = 0; i < lines[l].size(); ++i) {
      const int x = padding + static_cast<int>((pens[l][i] + 32) >> 6);
      AddGlyph(fonts_->Render(lines[l][i]), x, baseline, mask_.width, mask_.height, mask_.coverage);
    }
  }
}

DrawnBox TextDrawer::Draw(std::string_view text, const TextStyle& style, Image& image) {
  const int size_px =
      style.size_px > 0 ? std::min(style.size_px, 1000) : std::clamp(image.height / 24, kLeastSize, kLargestSize);
  const int max_height = static_cast<int>(image.height * std::clamp(style.max_height_share, 0.0, 1.0));
  if (mask_.text != text || mask_.size_px != size_px || mask_.max_width != image.width ||
      mask_.max_height != max_height) {
    MakeMask(text, size_px, image.width, max_height);
  }
  if (mask_.coverage.empty()) return {};
  const DrawnBox box{.x = 0, .y = image.height - mask_.height, .width = mask_.width, .height = mask_.height};
  const int opacity = std::clamp(style.box_opacity, 0, 255);
  const uint8_t* coverage = mask_.coverage.data();
  for (int y = box.y; y < box.y + box.height; ++y) {
    uint8_t* pixel = image.rgb.data() + 3 * (static_cast<size_t>(y) * image.width + box.x);
    for (int x = 0; x < box.width; ++x, ++coverage) {
      for (size_t c = 0; c < 3; ++c, ++pixel) *pixel = Mix(Mix(*pixel, style.box[c], opacity), style.ink[c], *coverage);
    }
  }
  return box;
}

}  // namespace minicpm
