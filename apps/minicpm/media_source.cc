// Implementation of media_source.h.
#include "media_source.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace minicpm::cli {
namespace {

// Value of each base64 digit, -1 for all other bytes.
constexpr std::array<int8_t, 256> MakeBase64Table() {
  std::array<int8_t, 256> table{};
  table.fill(-1);
  int8_t value = 0;
  for (char c = 'A'; c <= 'Z'; ++c) table[static_cast<unsigned char>(c)] = value++;
  for (char c = 'a'; c <= 'z'; ++c) table[static_cast<unsigned char>(c)] = value++;
  for (char c = '0'; c <= '9'; ++c) table[static_cast<unsigned char>(c)] = value++;
  table['+'] = value++;
  table['/'] = value++;
  return table;
}
constexpr std::array<int8_t, 256> kBase64 = MakeBase64Table();

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> DecodePercent(std::string_view text) {
  std::string s;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      s += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    const int byte = high * 16 + low;
    if (high < 0 || low < 0 || byte == 0) {
      return Fail(ErrorCode::kCorrupt, "URL \"" + Printable(text) + "\": expected two hex digits after each %");
    }
    s += static_cast<char>(byte);
    i += 2;
  }
  return s;
}

std::string Lower(std::string_view text) {
  std::string s(text);
  for (char& c : s) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return s;
}

// The scheme in lower case, or "" for a plain path. One letter before a colon, or a slash in front of it, is a path.
std::string SchemeOf(std::string_view url) {
  const size_t colon = url.find(':');
  if (colon == std::string_view::npos || colon < 2) return "";
  const std::string scheme = Lower(url.substr(0, colon));
  if (scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.") != std::string::npos) return "";
  // "photo:1.jpg" is a file's name; a URL goes on with "//", and data: needs no slashes.
  return scheme == "data" || url.substr(colon + 1).starts_with("//") ? scheme : "";
}

Result<MediaSource> ResolveData(std::string_view url) {
  const size_t comma = url.find(',');
  const std::string head =
      Lower(url.substr(0, comma == std::string_view::npos ? std::min<size_t>(url.size(), 80) : comma));
  if (comma == std::string_view::npos || !head.ends_with(";base64")) {
    return Fail(ErrorCode::kCorrupt, "URL \"" + Printable(head, 60) + "\": expected data:TYPE/SUBTYPE;base64,BYTES");
  }
  MediaSource source;
  MINICPM_ASSIGN(source.bytes, DecodeBase64(url.substr(comma + 1)));
  if (source.bytes.empty()) return Fail(ErrorCode::kCorrupt, "URL \"" + Printable(head, 60) + "\" holds no bytes");
  return source;
}

}  // namespace

Result<std::vector<std::byte>> DecodeBase64(std::string_view text) {
  const auto broken = [](const std::string& what) { return Fail(ErrorCode::kCorrupt, "base64 text: " + what); };
  if (text.size() % 4 != 0) {
    return broken("expected a length that is a multiple of 4, found " + std::to_string(text.size()));
  }
  size_t n_pad = 0;
  while (n_pad < 2 && n_pad < text.size() && text[text.size() - 1 - n_pad] == '=') ++n_pad;
  const size_t n_digits = text.size() - n_pad;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  for (size_t i = 0; i < n_digits; ++i) {
    const int8_t value = kBase64[static_cast<unsigned char>(text[i])];
    if (value < 0) return broken("unexpected character at position " + std::to_string(i));
    group = group << 6 | static_cast<uint32_t>(value);
    if (i % 4 == 3) {
      for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<std::byte>(group >> shift & 0xff));
      group = 0;
    }
  }
  if (n_pad == 1) {  // three digits: 16 bits and two spare ones
    if ((group & 3) != 0) return broken("the last digit has bits that belong to no byte");
    for (const int shift : {10, 2}) bytes.push_back(static_cast<std::byte>(group >> shift & 0xff));
  } else if (n_pad == 2) {  // two digits: 8 bits and four spare ones
    if ((group & 15) != 0) return broken("the last digit has bits that belong to no byte");
    bytes.push_back(static_cast<std::byte>(group >> 4 & 0xff));
  }
  return bytes;
}

Result<MediaSource> ResolveMediaUrl(std::string_view url, const std::string& base_folder) {
  const std::string scheme = SchemeOf(url);
  if (scheme == "data") return ResolveData(url);
  if (scheme == "http" || scheme == "https") {
    return Fail(ErrorCode::kUnsupported,
                "URL \"" + Printable(url) + "\": nothing is fetched from the network, expected a path or a data: URL");
  }
  if (!scheme.empty() && scheme != "file") {
    return Fail(ErrorCode::kUnsupported, "URL \"" + Printable(url) + "\": expected a path, a file:// or a data: URL");
  }
  std::string path(url);
  if (scheme == "file") {
    std::string_view rest = url.substr(7);
    if (Lower(rest).starts_with("localhost/")) rest.remove_prefix(9);
    MINICPM_ASSIGN(path, DecodePercent(rest));
  }
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kCorrupt, "URL \"" + Printable(url) + "\" names no file");
  }
  if (!path.starts_with('/') && !base_folder.empty()) path = base_folder + "/" + path;
  return MediaSource{path, {}};
}

}  // namespace minicpm::cli
