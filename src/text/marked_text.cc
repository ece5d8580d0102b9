// Implementation of marked_text.h.
#include "text/marked_text.h"

#include <algorithm>

namespace minicpm {

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
