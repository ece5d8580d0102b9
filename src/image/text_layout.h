// Text -> lines that fit into a width: cleaning of hostile text and breaking at words and CJK characters. Not for fonts
// or pixels (font_set.h, draw_text.h), and no shaping: every code point stands for itself, from left to right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace minicpm {

// More than this many characters are never looked at.
inline constexpr size_t kMaxDrawnCharacters = 4096;

// The code points of `utf8` that can be drawn, at most kMaxDrawnCharacters; what was cut off is replaced by one
// ellipsis. Line separators become '\n', tabs become spaces; other control characters, marks of direction and
// invisible characters are dropped, invalid bytes become U+FFFD.
std::u32string DrawableText(std::string_view utf8);

// Width that `c` adds when it stands after `previous` (0: at the beginning of a line), in 1/64 px.
using AdvanceFunction = FunctionRef<int64_t(char32_t previous, char32_t c)>;

// Breaks `text` at '\n', and where a line would become wider than `width` (1/64 px): at spaces, beside CJK characters
// (never before closing punctuation), else anywhere; a line holds at least one character. When more than `max_lines`
// would be needed, the last one ends with an ellipsis.
std::vector<std::u32string> WrapText(std::u32string_view text, int64_t width, size_t max_lines,
                                     AdvanceFunction advance);

}  // namespace minicpm
