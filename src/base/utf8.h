// Strict UTF-8 decoding and encoding of single code points (RFC 3629). Not for normalisation or categories: see
// src/text. Shared low down because error quoting, JSON, tokenizing and streaming all need the same idea of "valid".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace minicpm {

struct Utf8Char {
  char32_t code_point;  // U+FFFD when !valid
  uint8_t
      length;  // bytes consumed, >= 1; for invalid input the maximal invalid prefix (Unicode's recommended practice)
  bool valid;
};

// Decodes the code point that starts at byte `pos`. Requires: pos < s.size().
Utf8Char DecodeUtf8(std::string_view s, size_t pos);

// Appends the UTF-8 form of `code_point`. Requires: a Unicode scalar value.
void AppendUtf8(std::string& out, char32_t code_point);

// Number of bytes at the end of `s` that are the beginning of a longer, so far valid sequence (0..3).
size_t IncompleteUtf8Tail(std::string_view s);

// `s` with every maximal invalid prefix replaced by U+FFFD (what Python's errors="replace" gives).
std::string ReplaceInvalidUtf8(std::string_view s);

bool IsValidUtf8(std::string_view s);

}  // namespace minicpm
