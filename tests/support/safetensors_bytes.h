// Safetensors files put together by hand, so that tests can break any rule. Not the product's writer: that one keeps
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace minicpm::test {

// 8 bytes of length, the header as it stands, the data as it stands.
inline std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 0xff);
  out += header;
  out += data;
  return out;
}

// `header` with spaces at the end so that the data begins at a multiple of 8.
inline std::string PaddedHeader(std::string header) {
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

inline std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace minicpm::test
