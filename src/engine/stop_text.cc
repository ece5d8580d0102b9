// Implementation of stop_text.h.
#include "engine/stop_text.h"

#include <algorithm>

namespace minicpm {

StopText::StopText(const std::vector<std::string>& stops, size_t reserve_bytes) : stops_(stops) {
  text_.reserve(reserve_bytes);
}

std::string_view StopText::Show(size_t end) {
  const size_t begin = shown_;
  shown_ = end;
  return std::string_view(text_).substr(begin, end - begin);
}

std::string_view StopText::Push(std::string_view text) {
  if (stopped_) return {};
  text_ += text;
  const std::string_view pending = std::string_view(text_).substr(shown_);
  size_t hold = 0;  // longest end of the text that begins some stop string
  size_t first = std::string_view::npos;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    first = std::min(first, pending.find(stop));
    for (size_t n = std::min(stop.size() - 1, pending.size()); n > hold; --n) {
      if (pending.ends_with(std::string_view(stop).substr(0, n))) hold = n;
    }
  }
  if (first != std::string_view::npos) {
    stopped_ = true;
    text_.resize(shown_ + first);
    return Show(text_.size());
  }
  return Show(text_.size() - hold);
}

std::string_view StopText::Finish() { return Show(text_.size()); }

}  // namespace minicpm
