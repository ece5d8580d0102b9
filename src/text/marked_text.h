// Text of which each part is trusted (the template's own) or not (a user's), kept together while a template is
// rendered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace minicpm {

class MarkedText {
 public:
  void Append(std::string_view text, bool trusted);
  // Appends other[begin, end). Requires: begin <= end <= size of other.
  void Append(const MarkedText& other, size_t begin, size_t end);
  void Append(const MarkedText& other) { Append(other, 0, other.text_.size()); }

  std::string_view text() const { return text_; }
  bool empty() const { return text_.empty(); }
  // Without newlines at the beginning / the end, like Python's lstrip('\n') and rstrip('\n').
  MarkedText LeftStripped() const;
  MarkedText RightStripped() const;
  // Without any white space at both ends, like Python's strip() (and Jinja's trim). Requires: valid UTF-8 there.
  MarkedText Trimmed() const;
  MarkedText Slice(size_t begin, size_t end) const;

  std::vector<RenderedPrompt::Stretch> Stretches() const;

 private:
  struct Run {
    size_t end;  // bytes from the previous run's end up to here
    bool trusted;
  };
  std::string text_;
  std::vector<Run> runs_;  // neighbours differ in trust
};

}  // namespace minicpm
