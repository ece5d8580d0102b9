// Implementation of unicode.h. Two tables hold what utf8proc 2.8 (Unicode 15.0) does not know or knows too well:
// the tokenizers' regex engine has the letters of Unicode 15.1 and 16, their NFC has the combining classes of
// Unicode 9.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/utf8.h"

namespace minicpm {
namespace {

struct Range {
  char32_t first, last;
};

// Assigned in Unicode 15.1 and 16.0 (UnicodeData.txt of those versions), so unassigned for utf8proc 2.8.
constexpr Range kLateLetters[] = {{0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
                                  {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
                                  {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7},
                                  {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
                                  {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
                                  {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr Range kLateNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
                                  {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};
constexpr Range kLateMarks[] = {{0x897, 0x897},     {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFC}, {0x113B8, 0x113C0},
                                {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D0},
                                {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F},
                                {0x1E5EE, 0x1E5EF}};

// Characters newer than Unicode 9 that utf8proc reorders (combining class > 0) or composes with what stands before them
// (U+11930), while the tokenizers' NFC leaves them where they are.
constexpr Range kNeverMoved[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};

// Starters whose NFC form is themselves and that never compose with a character before them. Not all of them: the
// common scripts, so that plain text is copied instead of taken apart.
constexpr Range kInert[] = {{0x0, 0x2FF},     {0x400, 0x482},   {0x3000, 0x3029}, {0x3041, 0x3096},  {0x30A1, 0x30FA},
                            {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFF00, 0xFFEF}, {0x1F300, 0x1FAFF}};

bool InRanges(std::span<const Range> ranges, char32_t c) {
  const auto it = std::ranges::upper_bound(ranges, c, {}, &Range::first);
  return it != ranges.begin() && c <= std::prev(it)->last;
}

CharClass SlowClassOf(char32_t c) {
  switch (utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    case UTF8PROC_CATEGORY_CN:
      if (InRanges(kLateLetters, c)) return CharClass::kLetter;
      if (InRanges(kLateNumbers, c)) return CharClass::kNumber;
      if (InRanges(kLateMarks, c)) return CharClass::kMark;
      return CharClass::kOther;
    default:  // the white space among the control characters
      return (c >= 0x9 && c <= 0xD) || c == 0x85 ? CharClass::kSpace : CharClass::kOther;
  }
}

constexpr std::array<CharClass, 128> MakeAsciiClasses() {
  std::array<CharClass, 128> classes{};
  classes.fill(CharClass::kOther);
  for (char c = 'a'; c <= 'z'; ++c) classes[static_cast<size_t>(c)] = CharClass::kLetter;
  for (char c = 'A'; c <= 'Z'; ++c) classes[static_cast<size_t>(c)] = CharClass::kLetter;
  for (char c = '0'; c <= '9'; ++c) classes[static_cast<size_t>(c)] = CharClass::kNumber;
  for (size_t c = 0x9; c <= 0xD; ++c) classes[c] = CharClass::kSpace;
  classes[' '] = CharClass::kSpace;
  return classes;
}
constexpr std::array<CharClass, 128> kAsciiClasses = MakeAsciiClasses();

bool IsInert(char32_t c) { return c < 0x300 || InRanges(kInert, c); }

bool StartsChunk(char32_t c) { return IsInert(c) || InRanges(kNeverMoved, c); }

int CombiningClass(utf8proc_int32_t c) {
  if (InRanges(kNeverMoved, static_cast<char32_t>(c))) return 0;
  return utf8proc_get_property(c)->combining_class;
}

// Canonical ordering: every run of non-starters sorted by combining class, equal classes in their old order.
void SortMarks(std::vector<utf8proc_int32_t>& chars) {
  std::vector<uint64_t> keys;  // class, place in the run, character: all different, so that any sort is a stable one
  for (size_t i = 0; i < chars.size(); ++i) {
    keys.clear();
    const size_t begin = i;
    for (; i < chars.size(); ++i) {
      const int combining_class = CombiningClass(chars[i]);
      if (combining_class == 0) break;
      keys.push_back(static_cast<uint64_t>(combining_class) << 53 | static_cast<uint64_t>(i - begin) << 21 |
                     static_cast<uint64_t>(chars[i]));
    }
    std::ranges::sort(keys);
    for (size_t k = 0; k < keys.size(); ++k) chars[begin + k] = static_cast<utf8proc_int32_t>(keys[k] & 0x1FFFFF);
  }
}

}  // namespace

CharClass ClassOf(char32_t c) { return c < 128 ? kAsciiClasses[c] : SlowClassOf(c); }

bool NfcChunks::Next() {
  begin_ = end_;
  if (begin_ >= text_.size()) return false;
  const Utf8Char first = DecodeUtf8(text_, begin_);
  end_ = begin_ + first.length;
  inert_ = IsInert(first.code_point);
  while (end_ < text_.size()) {
    const Utf8Char next = DecodeUtf8(text_, end_);
    if (StartsChunk(next.code_point)) break;
    end_ += next.length;
    inert_ = false;
  }
  return true;
}

void AppendComposedChunk(std::string_view chunk, std::string& out) {
  std::vector<utf8proc_int32_t> chars;
  for (size_t i = 0; i < chunk.size();) {
    const Utf8Char c = DecodeUtf8(chunk, i);
    i += c.length;
    utf8proc_int32_t parts[32];  // the longest canonical decomposition has 4 characters
    int last_bound_class = 0;
    const auto code_point = static_cast<utf8proc_int32_t>(c.code_point);
    const utf8proc_ssize_t n = utf8proc_decompose_char(code_point, parts, 32, UTF8PROC_DECOMPOSE, &last_bound_class);
    if (n < 1 || n > 32) {
      chars.push_back(code_point);
    } else {
      chars.insert(chars.end(), parts, parts + n);
    }
  }
  SortMarks(chars);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(chars.data(), static_cast<utf8proc_ssize_t>(chars.size()), options);
  for (utf8proc_ssize_t i = 0; i < n; ++i) AppendUtf8(out, static_cast<char32_t>(chars[static_cast<size_t>(i)]));
}

void AppendNfc(std::string_view text, std::string& out) {
  out.reserve(out.size() + text.size());
  NfcChunks chunks(text);
  size_t copied = 0;  // up to here `text` is in `out`; the inert chunks behind it are copied together
  while (chunks.Next()) {
    if (chunks.inert()) continue;
    out.append(text, copied, chunks.begin() - copied);
    AppendComposedChunk(text.substr(chunks.begin(), chunks.end() - chunks.begin()), out);
    copied = chunks.end();
  }
  out.append(text, copied);
}

}  // namespace minicpm
