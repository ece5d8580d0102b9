// Splits a text by a regular expression of a tokenizer.json ("Split" with behaviour "Isolated"), on PCRE2 with a
// bounded effort. The general path for patterns that pre_tokenizer.cc does not know, and the oracle in its tests.
#pragma once

#include <memory>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace minicpm {

// Threads: Split from several threads.
class RegexSplitter {
 public:
  // The pattern is in the Oniguruma dialect of the Hugging Face tokenizers. \s and \w are given that dialect's meaning;
  // categories are those of PCRE2's Unicode version. Errors: kCorrupt (does not compile), kUnsupported (means something
  // else in PCRE2, or is too long).
  static Result<RegexSplitter> Compile(std::string_view pattern);
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // Matches and the stretches between them are pieces. When a pattern takes more steps than a sensible one can need
  // (kStepsPerByte in regex_splitter.cc), the rest of the text is one piece. Requires: valid UTF-8.
  void Split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

 private:
  struct Impl;
  explicit RegexSplitter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
