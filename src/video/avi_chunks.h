// What an AVI file holds: its streams, and where their chunks lie. Internal to this room.
// Not for decoding what is in them (avi.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "video/byte_source.h"

namespace minicpm {

struct AviChunk {
  uint64_t offset = 0;  // of the data, after the chunk's 8 bytes of name and length
  uint32_t bytes = 0;
};

struct AviStream {
  std::string kind;               // "vids", "auds", ...
  double rate = 0;                // frames or blocks per second; 0: not said
  std::vector<std::byte> format;  // BITMAPINFOHEADER or WAVEFORMATEX
  std::vector<std::byte> index;   // OpenDML's list of indices, if any
};

struct AviFile {
  std::vector<AviStream> streams;
  double header_fps = 0;    // of the file's main header; 0: not said
  uint64_t movi_begin = 0;  // first chunk of the first list of data
  uint64_t movi_end = 0;
  bool movi_end_known = false;  // false: the length was never written
  uint64_t idx1_offset = 0;     // 0: none
  uint64_t idx1_bytes = 0;
  std::vector<std::pair<uint64_t, uint64_t>> more;  // further lists of data: begin, end
};

// Headers only. Errors: kCorrupt, kIo.
Result<AviFile> ReadAviHeaders(ByteSource& source);

// The chunks of one stream, in order, empty ones included. Errors: kCorrupt; kResourceExhausted above `max_chunks`.
Result<std::vector<AviChunk>> FindAviChunks(ByteSource& source, const AviFile& file, size_t stream, int64_t max_chunks);

std::unexpected<Error> BrokenAvi(const ByteSource& source, const std::string& what);

}  // namespace minicpm
