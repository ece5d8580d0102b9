// Implementation of text_layout.h.
#include "image/text_layout.h"

#include <algorithm>

#include "base/utf8.h"

namespace minicpm {
namespace {

constexpr char32_t kEllipsis = U'…';

bool IsInvisible(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x34f || c == 0x61c || (c >= 0x115f && c <= 0x1160) ||
         (c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe0fff);
}

bool IsCjk(char32_t c) {
  return (c >= 0x2e80 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0xff00 && c <= 0xff60) || (c >= 0x20000 && c <= 0x3ffff);
}

bool OneOf(std::u32string_view set, char32_t c) { return set.find(c) != std::u32string_view::npos; }
bool Closes(char32_t c) { return OneOf(U"、。，．！？：；）］｝」』】》〉”’…,.!?:;)]}%", c); }
bool Opens(char32_t c) { return OneOf(U"（［｛「『【《〈“‘([{", c); }

// Whether a line may end between these two.
bool MayBreak(char32_t before, char32_t after) {
  if (before == U' ') return after != U' ';
  return (IsCjk(before) || IsCjk(after)) && after != U' ' && !Closes(after) && !Opens(before);
}

class Wrapper {
 public:
  Wrapper(std::u32string_view text, int64_t width, size_t max_lines, AdvanceFunction advance)
      : text_(text), width_(width), max_lines_(max_lines), advance_(advance) {}

  std::vector<std::u32string> Run() {
    size_t begin = 0;
    while (begin < text_.size() && lines_.size() < max_lines_) {
      const size_t end = LineEnd(begin);
      lines_.push_back(Trimmed(begin, end));
      begin = end;
      // The white space at a break belongs to no line; a newline ends exactly one.
      while (begin < text_.size() && text_[begin] == U' ') ++begin;
      if (begin < text_.size() && text_[begin] == U'\n') ++begin;
    }
    if (begin < text_.size() && !lines_.empty()) EndWithEllipsis(lines_.back());
    return std::move(lines_);
  }

 private:
  // One behind the last character of the line that starts at `begin`.
  size_t LineEnd(size_t begin) {
    size_t best = begin;  // the last place to break at
    int64_t x = 0;
    for (size_t i = begin; i < text_.size(); ++i) {
      if (text_[i] == U'\n') return i;
      if (i > begin && MayBreak(text_[i - 1], text_[i])) best = i;
      x += advance_(i > begin ? text_[i - 1] : 0, text_[i]);
      // Spaces may stand beyond the edge: nobody sees them.
      if (x > width_ && text_[i] != U' ' && i > begin) return best > begin ? best : i;
    }
    return text_.size();
  }

  std::u32string Trimmed(size_t begin, size_t end) {
    while (end > begin && text_[end - 1] == U' ') --end;
    return std::u32string(text_.substr(begin, end - begin));
  }

  int64_t Width(const std::u32string& line) {
    int64_t x = 0;
    for (size_t i = 0; i < line.size(); ++i) x += advance_(i > 0 ? line[i - 1] : 0, line[i]);
    return x;
  }

  void EndWithEllipsis(std::u32string& line) {
    if (!line.empty() && line.back() == kEllipsis) return;
    line += kEllipsis;
    while (line.size() > 1 && Width(line) > width_) line.erase(line.size() - 2, 1);
  }

  const std::u32string_view text_;
  const int64_t width_;
  const size_t max_lines_;
  const AdvanceFunction advance_;
  std::vector<std::u32string> lines_;
};

}  // namespace

std::u32string DrawableText(std::string_view utf8) {
  std::u32string text;
  for (size_t pos = 0; pos < utf8.size();) {
    const Utf8Char c = DecodeUtf8(utf8, pos);
    const bool crlf = c.code_point == U'\r' && pos + 1 < utf8.size() && utf8[pos + 1] == '\n';
    pos += c.length;
    char32_t drawn = c.code_point;
    if (drawn == U'\r' || drawn == 0x2028 || drawn == 0x2029 || drawn == 0x85) drawn = U'\n';
    if (drawn == U'\t') drawn = U' ';
    if (crlf || (drawn != U'\n' && IsInvisible(drawn))) continue;
    if (text.size() + 1 >= kMaxDrawnCharacters) {
      text += kEllipsis;
      break;
    }
    text += drawn;
  }
  return text;
}

std::vector<std::u32string> WrapText(std::u32string_view text, int64_t width, size_t max_lines,
                                     AdvanceFunction advance) {
  return Wrapper(text, width, max_lines, advance).Run();
}

}  // namespace minicpm
