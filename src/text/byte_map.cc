// Implementation of byte_map.h: two tables made at compile time.
#include "text/byte_map.h"

#include <array>

#include "base/utf8.h"

namespace minicpm {
namespace {

constexpr size_t kMapped = 256 + 68;  // 68 bytes are not printable and get a character from 256 on

constexpr std::array<uint16_t, 256> MakeByteToChar() {
  std::array<uint16_t, 256> map{};
  uint16_t next = 256;
  for (uint16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    map[b] = printable ? b : next++;
  }
  return map;
}

constexpr std::array<uint16_t, 256> kByteToChar = MakeByteToChar();

constexpr std::array<int16_t, kMapped> MakeCharToByte() {
  std::array<int16_t, kMapped> map{};
  map.fill(-1);
  for (size_t b = 0; b < 256; ++b) map[kByteToChar[b]] = static_cast<int16_t>(b);
  return map;
}

constexpr std::array<int16_t, kMapped> kCharToByte = MakeCharToByte();

}  // namespace

char32_t ByteToChar(uint8_t byte) { return kByteToChar[byte]; }

std::string EntryToBytes(std::string_view entry) {
  std::string bytes;
  for (size_t i = 0; i < entry.size();) {
    const Utf8Char c = DecodeUtf8(entry, i);
    i += c.length;
    if (c.code_point >= kMapped || kCharToByte[c.code_point] < 0) return std::string(entry);
    bytes += static_cast<char>(kCharToByte[c.code_point]);
  }
  return bytes;
}

}  // namespace minicpm
