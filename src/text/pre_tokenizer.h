// Cuts a text into the pieces ("words") inside which byte pairs are merged. Not for added tokens: those are taken out
// before. The two patterns of the families are written by hand; any other pattern of a tokenizer.json runs on PCRE2
// (regex_splitter.h).
#pragma once

#include <memory>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace minicpm {

class RegexSplitter;

// As they stand in the tokenizer.json files: Qwen2 and Qwen3; and the later one in which letters may carry marks.
inline constexpr std::string_view kQwen2Pattern =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
inline constexpr std::string_view kQwen35Pattern =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

// Threads: Split from several threads.
class PreTokenizer {
 public:
  // Errors: kCorrupt (a pattern that does not compile), kUnsupported (one that means something else here).
  static Result<PreTokenizer> FromPattern(std::string_view pattern);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `piece` for every piece in order; together they are the whole text. Requires: valid UTF-8.
  void Split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

 private:
  PreTokenizer();
  bool letters_carry_marks_ = false;
  std::unique_ptr<RegexSplitter> regex_;  // null for the two known patterns
};

}  // namespace minicpm
