// The bounds check of tiff_directory.h, by the TIFF 6.0 and BigTIFF layouts of a directory. Not for any tag's meaning.
#include "image/tiff_directory.h"

#include <algorithm>
#include <array>
#include <string>

namespace minicpm {
namespace {

// Size, depth, compression, colours, strips and tiles, orientation, sample kinds, JPEG tables, YCbCr. Others may be
// junk.
constexpr std::array<uint16_t, 28> kTags = {256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 292, 293,
                                            317, 320, 322, 323, 324, 325, 332, 338, 339, 347, 529, 530, 531, 532};
// Bytes of one value by the field type's number; 0 for unknown ones.
constexpr std::array<uint8_t, 19> kTypeBytes = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};

// n bytes at `at` as an unsigned number. Requires: they are inside the file.
uint64_t Number(const CodecInput& in, uint64_t at, int n) {
  const bool big_endian = in.data()[0] == 'M';
  uint64_t value = 0;
  for (int i = 0; i < n; ++i) value = value << 8 | in.data()[at + (big_endian ? i : n - 1 - i)];
  return value;
}

}  // namespace

Status CheckTiffDirectory(const CodecInput& in, uint64_t offset) {
  const uint64_t size = in.size();
  const auto inside = [size](uint64_t at, uint64_t n) { return at <= size && n <= size - at; };
  const auto ended = Broken(in, "TIFF", "the file ends inside its directory");
  if (!inside(0, 4)) return ended;
  const bool big = Number(in, 2, 2) == 43;
  const int count_bytes = big ? 8 : 2;
  const int word = big ? 8 : 4;  // of counts and offsets
  const int entry_bytes = 4 + 2 * word;
  if (!inside(offset, count_bytes)) return ended;
  const uint64_t n_entries = Number(in, offset, count_bytes);
  if (n_entries > size / entry_bytes || !inside(offset + count_bytes, n_entries * entry_bytes + word)) return ended;
  for (uint64_t i = 0; i < n_entries; ++i) {
    const uint64_t at = offset + count_bytes + i * entry_bytes;
    const uint64_t tag = Number(in, at, 2);
    const uint64_t type = Number(in, at + 2, 2);
    if (std::ranges::find(kTags, tag) == kTags.end() || type >= kTypeBytes.size()) continue;
    const uint64_t count = Number(in, at + 4, word);
    const uint64_t value_bytes = kTypeBytes[type];
    if (value_bytes == 0 || count == 0) continue;
    const uint64_t where = Number(in, at + 4 + word, word);
    const bool inline_value = count <= static_cast<uint64_t>(word) / value_bytes;
    if (inline_value || (count <= size / value_bytes && inside(where, count * value_bytes))) continue;
    return Broken(in, "TIFF",
                  "tag " + std::to_string(tag) + " has " + std::to_string(count) + " values at offset " +
                      std::to_string(where) + ", the file has " + std::to_string(size) + " bytes");
  }
  return {};
}

}  // namespace minicpm
