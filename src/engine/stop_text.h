// StopText: holds generated text back while it might be the beginning of a stop string, and cuts at the first one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace minicpm {

class StopText {
 public:
  // Empty strings in `stops` are ignored. Lifetime: `stops` outlives this.
  StopText(const std::vector<std::string>& stops, size_t reserve_bytes);
  // Adds text; returns what may be shown now. Lifetime of the view: until the next call.
  std::string_view Push(std::string_view text);
  // Whatever was held back, when generation ends for another reason.
  std::string_view Finish();
  bool stopped() const { return stopped_; }
  // Everything shown so far.
  const std::string& text() const { return text_; }

 private:
  std::string_view Show(size_t end);

  const std::vector<std::string>& stops_;
  std::string text_;  // shown [0, shown_) and held back
  size_t shown_ = 0;
  bool stopped_ = false;
};

}  // namespace minicpm
