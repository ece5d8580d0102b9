// Implementation of utf8.h, after table 3-7 of the Unicode standard (well-formed byte sequences).
#include "base/utf8.h"

namespace minicpm {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Lead {
  uint8_t length;     // total bytes, 0 = never a first byte
  uint8_t lo, hi;     // allowed range of the second byte
  uint8_t bits_mask;  // payload bits of the first byte
};

Lead LeadOf(uint8_t b) {
  if (b < 0x80) return {1, 0, 0, 0x7f};
  if (b < 0xc2) return {0, 0, 0, 0};
  if (b < 0xe0) return {2, 0x80, 0xbf, 0x1f};
  if (b == 0xe0) return {3, 0xa0, 0xbf, 0x0f};
  if (b == 0xed) return {3, 0x80, 0x9f, 0x0f};
  if (b < 0xf0) return {3, 0x80, 0xbf, 0x0f};
  if (b == 0xf0) return {4, 0x90, 0xbf, 0x07};
  if (b < 0xf4) return {4, 0x80, 0xbf, 0x07};
  if (b == 0xf4) return {4, 0x80, 0x8f, 0x07};
  return {0, 0, 0, 0};
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view s, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const Lead lead = LeadOf(byte(pos));
  if (lead.length == 0) return {kReplacement, 1, false};
  char32_t cp = byte(pos) & lead.bits_mask;
  for (uint8_t i = 1; i < lead.length; ++i) {
    const uint8_t lo = i == 1 ? lead.lo : 0x80;
    const uint8_t hi = i == 1 ? lead.hi : 0xbf;
    if (pos + i >= s.size() || byte(pos + i) < lo || byte(pos + i) > hi) return {kReplacement, i, false};
    cp = (cp << 6) | (byte(pos + i) & 0x3f);
  }
  return {cp, lead.length, true};
}

void AppendUtf8(std::string& out, char32_t cp) {
  if (cp < 0x80) {
    out += static_cast<char>(cp);
  } else if (cp < 0x800) {
    out += static_cast<char>(0xc0 | (cp >> 6));
    out += static_cast<char>(0x80 | (cp & 0x3f));
  } else if (cp < 0x10000) {
    out += static_cast<char>(0xe0 | (cp >> 12));
    out += static_cast<char>(0x80 | ((cp >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (cp & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (cp >> 18));
    out += static_cast<char>(0x80 | ((cp >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((cp >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (cp & 0x3f));
  }
}

size_t IncompleteUtf8Tail(std::string_view s) {
  for (size_t back = 1; back <= 3 && back <= s.size(); ++back) {
    const auto b = static_cast<uint8_t>(s[s.size() - back]);
    if ((b & 0xc0) == 0x80) continue;
    const Lead lead = LeadOf(b);
    if (lead.length <= back) return 0;
    // Incomplete only if everything up to the end is a valid prefix: decoding must consume exactly `back` bytes.
    const Utf8Char c = DecodeUtf8(s, s.size() - back);
    return c.length == back ? back : 0;
  }
  return 0;
}

std::string ReplaceInvalidUtf8(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    const Utf8Char c = DecodeUtf8(s, i);
    if (c.valid) {
      out.append(s.substr(i, c.length));
    } else {
      AppendUtf8(out, kReplacement);
    }
    i += c.length;
  }
  return out;
}

bool IsValidUtf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const Utf8Char c = DecodeUtf8(s, i);
    if (!c.valid) return false;
    i += c.length;
  }
  return true;
}

}  // namespace minicpm
