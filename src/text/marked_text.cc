// Implementation of marked_text.h.
#include "text/marked_text.h"

#include <algorithm>

namespace minicpm {
namespace {

// Bytes of the character that Python's str.isspace() accepts at the front of `text`; 0: none.
size_t SpaceAt(std::string_view text) {
  if (text.empty()) return 0;
  const auto c = static_cast<unsigned char>(text[0]);
  if ((c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20)) return 1;
  if (text.starts_with("\xc2\x85") || text.starts_with("\xc2\xa0")) return 2;
  if (text.size() < 3) return 0;
  const auto last = static_cast<unsigned char>(text[2]);
  if (text.starts_with("\xe2\x80") &&
      ((last >= 0x80 && last <= 0x8a) || last == 0xa8 || last == 0xa9 || last == 0xaf)) {
    return 3;
  }
  return text.starts_with("\xe1\x9a\x80") || text.starts_with("\xe2\x81\x9f") || text.starts_with("\xe3\x80\x80") ? 3
                                                                                                                  : 0;
}

}  // namespace

void MarkedText::Append(std::string_view text, bool trusted) {
  if (text.empty()) return;
  text_ += text;
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), trusted});
  }
}

void MarkedText::Append(const MarkedText& other, size_t begin, size_t end) {
  const std::string_view all = other.text_;
  size_t run_begin = 0;
  for (const Run& run : other.runs_) {
    const size_t from = std::max(begin, run_begin);
    const size_t to = std::min(end, run.end);
    if (from < to) Append(all.substr(from, to - from), run.trusted);
    run_begin = run.end;
  }
}

MarkedText MarkedText::Slice(size_t begin, size_t end) const {
  MarkedText result;
  result.Append(*this, begin, end);
  return result;
}

MarkedText MarkedText::LeftStripped() const {
  const size_t begin = text_.find_first_not_of('\n');
  return begin == std::string::npos ? MarkedText() : Slice(begin, text_.size());
}

MarkedText MarkedText::RightStripped() const {
  const size_t last = text_.find_last_not_of('\n');
  return last == std::string::npos ? MarkedText() : Slice(0, last + 1);
}

MarkedText MarkedText::Trimmed() const {
  const std::string_view text = text_;
  size_t begin = 0;
  while (const size_t n = SpaceAt(text.substr(begin))) begin += n;
  size_t end = text.size();
  // A space's last byte may end another character, but never all of its bytes.
  const auto space_before = [text, begin](size_t at) -> size_t {
    for (size_t n = 1; n <= 3 && n <= at - begin; ++n) {
      if (SpaceAt(text.substr(at - n, n)) == n) return n;
    }
    return 0;
  };
  while (const size_t n = space_before(end)) end -= n;
  return Slice(begin, end);
}

std::vector<RenderedPrompt::Stretch> MarkedText::Stretches() const {
  std::vector<RenderedPrompt::Stretch> stretches;
  size_t begin = 0;
  for (const Run& run : runs_) {
    stretches.push_back({text_.substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return stretches;
}

}  // namespace minicpm
