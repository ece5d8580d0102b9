// Implementation of pre_tokenizer.h. Each function stands for one alternative of the pattern, in its order; oracle in
// tests: PCRE2.
#include "text/pre_tokenizer.h"

#include <string>
#include <utility>

#include "base/utf8.h"
#include "text/regex_splitter.h"
#include "text/unicode.h"

namespace minicpm {
namespace {

struct Char {
  char32_t code_point = 0;
  CharClass char_class = CharClass::kOther;
  size_t end = 0;  // byte offset behind it
};

// Matches the known patterns at one position. A result of 0 means: this alternative does not match.
class Matcher {
 public:
  Matcher(std::string_view text, bool letters_carry_marks) : text_(text), marks_(letters_carry_marks) {}

  // End of the piece that begins at `begin`. Requires: begin < text.size().
  size_t End(size_t begin) const {
    const Char first = At(begin);
    if (first.code_point == U'\'') {
      if (const size_t end = Contraction(first.end)) return end;
    }
    if (const size_t end = Word(first, begin)) return end;
    if (first.char_class == CharClass::kNumber) return first.end;
    if (const size_t end = Symbols(first, begin)) return end;
    return WhiteSpace(first, begin);
  }

 private:
  Char At(size_t pos) const {
    const Utf8Char c = DecodeUtf8(text_, pos);
    return {c.code_point, ClassOf(c.code_point), pos + c.length};
  }
  static bool IsNewline(const Char& c) { return c.code_point == U'\r' || c.code_point == U'\n'; }
  bool IsWordChar(const Char& c) const {
    return c.char_class == CharClass::kLetter || (marks_ && c.char_class == CharClass::kMark);
  }
  bool IsSymbol(const Char& c) const {
    return c.char_class == CharClass::kOther || (!marks_ && c.char_class == CharClass::kMark);
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d), behind the apostrophe. U+017F (long s) equals s without case.
  size_t Contraction(size_t pos) const {
    if (pos >= text_.size()) return 0;
    if (text_.substr(pos).starts_with("\u017f")) return pos + 2;
    const auto lower = [&](size_t i) { return i < text_.size() ? static_cast<char>(text_[i] | 0x20) : '\0'; };
    const auto is_letter = [&](size_t i) { return i < text_.size() && (text_[i] & 0x40) && !(text_[i] & 0x80); };
    if (!is_letter(pos)) return 0;
    const char a = lower(pos);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 1;
    if (!is_letter(pos + 1)) return 0;
    const char b = lower(pos + 1);
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 2;
    return 0;
  }

  // [^\r\n\p{L}\p{N}]?\p{L}+ (and marks)
  size_t Word(const Char& first, size_t begin) const {
    size_t letters = begin;
    if (first.char_class != CharClass::kLetter && first.char_class != CharClass::kNumber && !IsNewline(first)) {
      if (first.end < text_.size() && IsWordChar(At(first.end))) {
        letters = first.end;
      } else if (!IsWordChar(first)) {
        return 0;
      }
    } else if (!IsWordChar(first)) {
      return 0;
    }
    while (letters < text_.size()) {
      const Char c = At(letters);
      if (!IsWordChar(c)) break;
      letters = c.end;
    }
    return letters;
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]* (and marks)
  size_t Symbols(const Char& first, size_t begin) const {
    size_t pos = first.code_point == U' ' ? first.end : begin;
    if (pos >= text_.size() || !IsSymbol(At(pos))) return 0;
    while (pos < text_.size()) {
      const Char c = At(pos);
      if (!IsSymbol(c)) break;
      pos = c.end;
    }
    while (pos < text_.size() && (text_[pos] == '\r' || text_[pos] == '\n')) ++pos;
    return pos;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+
  size_t WhiteSpace(const Char& first, size_t begin) const {
    size_t behind_newline = 0;
    size_t last = begin;  // where the last white space character of the run begins
    size_t pos = begin;
    while (pos < text_.size()) {
      const Char c = At(pos);
      if (c.char_class != CharClass::kSpace) break;
      if (IsNewline(c)) behind_newline = c.end;
      last = pos;
      pos = c.end;
    }
    if (pos == begin) return first.end;  // not white space: no alternative matches (cannot happen with these patterns)
    if (behind_newline != 0) return behind_newline;
    if (pos == text_.size() || last == begin) return pos;
    return last;  // leave one for the word that follows
  }

  std::string_view text_;
  bool marks_;
};

}  // namespace

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::FromPattern(std::string_view pattern) {
  PreTokenizer result;
  if (pattern == kQwen2Pattern) return result;
  if (pattern == kQwen35Pattern) {
    result.letters_carry_marks_ = true;
    return result;
  }
  MINICPM_ASSIGN(auto regex, RegexSplitter::Compile(pattern));
  result.regex_ = std::make_unique<RegexSplitter>(std::move(regex));
  return result;
}

void PreTokenizer::Split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  if (regex_) {
    regex_->Split(text, piece);
    return;
  }
  const Matcher matcher(text, letters_carry_marks_);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = matcher.End(begin);
    piece(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace minicpm
