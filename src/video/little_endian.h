// Numbers in the bytes of RIFF files. Internal to this room. Not for text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace minicpm {

// Requires: at + the width of the number <= bytes.size().
inline uint32_t Le16(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) | static_cast<uint32_t>(bytes[at + 1]) << 8;
}
inline uint32_t Le32(std::span<const std::byte> bytes, size_t at) {
  return Le16(bytes, at) | Le16(bytes, at + 2) << 16;
}
inline uint64_t Le64(std::span<const std::byte> bytes, size_t at) {
  return Le32(bytes, at) | static_cast<uint64_t>(Le32(bytes, at + 4)) << 32;
}
// Four letters as they stand.
inline std::string_view FourLetters(std::span<const std::byte> bytes, size_t at) {
  return {reinterpret_cast<const char*>(bytes.data()) + at, 4};
}

inline void AppendLe(std::string& out, uint64_t value, int n_bytes) {
  for (int i = 0; i < n_bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

}  // namespace minicpm
