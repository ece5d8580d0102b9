// Walks over RIFF lists; takes an index where there is one and it agrees with the file. Not for what chunks contain.
#include "video/avi_chunks.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "video/little_endian.h"

namespace minicpm {
namespace {

bool IsPrintable(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

constexpr uint64_t kMaxHeaderBytes = 16ull << 20;  // of the list of headers; a long file's list of indices is in there
constexpr size_t kMaxStreams = 32;
constexpr size_t kMaxFormat = 4096;
constexpr size_t kMaxIndexOfIndices = 1 << 20;
constexpr size_t kMaxSegments = 65536;
constexpr uint64_t kMaxIndexBytes = 1ull << 30;  // 67 million chunks

struct ChunkHead {
  std::string name;
  uint32_t bytes = 0;
};

Result<ChunkHead> HeadAt(ByteSource& source, uint64_t offset) {
  std::array<std::byte, 8> head;
  MINICPM_TRY(source.ReadAt(offset, head));
  return ChunkHead{std::string(FourLetters(head, 0)), Le32(head, 4)};
}

Result<std::vector<std::byte>> ReadUpTo(ByteSource& source, uint64_t offset, uint64_t bytes) {
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  MINICPM_TRY(source.ReadAt(offset, data));
  return data;
}

uint64_t Even(uint64_t bytes) { return bytes + (bytes & 1); }

// A stream's headers: the chunks of one "strl" list.
Result<AviStream> ReadStream(ByteSource& source, std::span<const std::byte> list) {
  AviStream stream;
  for (size_t at = 0; at + 8 <= list.size();) {
    const std::string_view name = FourLetters(list, at);
    const uint64_t bytes = Le32(list, at + 4);
    at += 8;
    if (bytes > list.size() - at) return BrokenAvi(source, "a stream's header is longer than its list");
    const auto data = list.subspan(at, bytes);
    if (name == "strh") {
      if (bytes < 36) return BrokenAvi(source, "a stream's header is too short");
      stream.kind = FourLetters(data, 0);
      const double scale = Le32(data, 20);
      const double rate = Le32(data, 24);
      stream.rate = scale > 0 ? rate / scale : 0;
    } else if (name == "strf") {
      const auto kept = data.first(std::min(data.size(), kMaxFormat));
      stream.format.assign(kept.begin(), kept.end());
    } else if (name == "indx" && data.size() <= kMaxIndexOfIndices) {
      stream.index.assign(data.begin(), data.end());
    }
    at = std::min<uint64_t>(at + Even(bytes), list.size());
  }
  return stream;
}

// The "hdrl" list.
Status ReadHeaderList(ByteSource& source, std::span<const std::byte> list, AviFile& file) {
  for (size_t at = 0; at + 8 <= list.size();) {
    const std::string_view name = FourLetters(list, at);
    const uint64_t bytes = Le32(list, at + 4);
    at += 8;
    if (bytes > list.size() - at) return BrokenAvi(source, "a header is longer than the list of headers");
    const auto data = list.subspan(at, bytes);
    if (name == "avih" && bytes >= 4) {
      if (const uint32_t us = Le32(data, 0); us > 0) file.header_fps = 1e6 / us;
    } else if (name == "LIST" && bytes >= 4 && FourLetters(data, 0) == "strl") {
      if (file.streams.size() == kMaxStreams) return BrokenAvi(source, "it has more than 32 streams");
      MINICPM_ASSIGN(AviStream stream, ReadStream(source, data.subspan(4)));
      file.streams.push_back(std::move(stream));
    }
    at = std::min<uint64_t>(at + Even(bytes), list.size());
  }
  return {};
}

// The lists of the first RIFF, which has everything but further data.
Status ReadFirstSegment(ByteSource& source, uint64_t end, AviFile& file) {
  constexpr int kMaxTopChunks = 65536;
  int n_chunks = 0;
  for (uint64_t at = 12; at + 8 <= end;) {
    MINICPM_ASSIGN(const ChunkHead head, HeadAt(source, at));
    if (++n_chunks > kMaxTopChunks) return BrokenAvi(source, "it has more than 65536 chunks outside of its frames");
    if (!IsPrintable(head.name)) return BrokenAvi(source, "something that is no chunk stands between its chunks");
    at += 8;
    if (head.name == "LIST" && at + 4 <= end) {
      std::array<std::byte, 4> kind;
      MINICPM_TRY(source.ReadAt(at, kind));
      const std::string_view name = FourLetters(kind, 0);
      if (name == "hdrl") {
        if (head.bytes > kMaxHeaderBytes) return BrokenAvi(source, "its headers have more than 16 MiB");
        if (head.bytes < 4 || head.bytes > end - at) return BrokenAvi(source, "it ends inside of its headers");
        MINICPM_ASSIGN(const auto list, ReadUpTo(source, at + 4, head.bytes - 4));
        MINICPM_TRY(ReadHeaderList(source, list, file));
      } else if (name == "movi" && file.movi_begin == 0) {
        file.movi_begin = at + 4;
        file.movi_end_known = head.bytes >= 4 && head.bytes != 0xffffffff;
        file.movi_end = file.movi_end_known ? at + head.bytes : source.size();
        if (!file.movi_end_known) return {};
      }
    } else if (head.name == "idx1") {
      file.idx1_offset = at;
      file.idx1_bytes = head.bytes;
    }
    at += Even(head.bytes);
  }
  return {};
}

// Further RIFFs of an OpenDML file.
Status ReadMoreSegments(ByteSource& source, uint64_t at, AviFile& file) {
  while (source.size() >= 24 && at <= source.size() - 24) {
    std::array<std::byte, 24> head;
    MINICPM_TRY(source.ReadAt(at, head));
    if (FourLetters(head, 0) != "RIFF" || FourLetters(head, 8) != "AVIX") return {};  // something appended
    if (FourLetters(head, 12) != "LIST" || FourLetters(head, 20) != "movi") {
      return BrokenAvi(source, "one of its parts does not begin with data");
    }
    const uint64_t bytes = Le32(head, 16);
    const bool known = bytes >= 4 && bytes != 0xffffffff;
    file.more.emplace_back(at + 24, known ? at + 20 + bytes : source.size());
    if (file.more.size() > kMaxSegments) return BrokenAvi(source, "it has too many parts");
    const uint64_t riff_bytes = Le32(head, 4);
    if (!known || riff_bytes < 16) return {};
    at += 8 + Even(riff_bytes);
  }
  return {};
}

class ChunkFinder {
 public:
  ChunkFinder(ByteSource& source, const AviFile& file, size_t stream, int64_t max_chunks)
      : source_(source), file_(file), stream_(file.streams[stream]), max_chunks_(max_chunks) {
    number_ = {static_cast<char>('0' + stream / 10), static_cast<char>('0' + stream % 10)};
  }

  Result<std::vector<AviChunk>> Find() {
    for (bool (ChunkFinder::*index)() : {&ChunkFinder::TakeIndexOfIndices, &ChunkFinder::TakeIdx1}) {
      chunks_.clear();
      if ((this->*index)() && !chunks_.empty() && SamplesAgree()) return std::move(chunks_);
    }
    chunks_.clear();
    MINICPM_TRY(Walk(file_.movi_begin, file_.movi_end));
    for (const auto& [begin, end] : file_.more) MINICPM_TRY(Walk(begin, end));
    return std::move(chunks_);
  }

 private:
  // "00dc", "00db" of pictures, "01wb" of sound.
  bool IsMine(std::string_view name) const {
    if (!name.starts_with(number_)) return false;
    const std::string_view kind = name.substr(2);
    return stream_.kind == "vids" ? kind == "dc" || kind == "db" : kind == "wb";
  }

  Status Add(uint64_t offset, uint32_t bytes) {
    if (static_cast<int64_t>(chunks_.size()) >= max_chunks_) {
      return Fail(ErrorCode::kResourceExhausted, source_.name() + ": the video has more than " +
                                                     std::to_string(max_chunks_) + " frames, which is the limit");
    }
    chunks_.push_back({offset, bytes});
    return {};
  }

  bool Inside(uint64_t offset, uint64_t bytes) const {
    return offset <= source_.size() && bytes <= source_.size() - offset;
  }

  // Each of the index functions says whether the index could be read to its end.
  bool TakeIndexOfIndices() {
    const std::span<const std::byte> index = stream_.index;
    if (index.size() < 24 || Le16(index, 0) != 4 || static_cast<int>(index[3]) != 0) return false;
    const uint64_t n = Le32(index, 4);
    if (n == 0 || n > (index.size() - 24) / 16) return false;
    for (uint64_t i = 0; i < n; ++i) {
      if (!TakeIndexOfChunks(Le64(index, 24 + 16 * i))) return false;
    }
    return true;
  }

  bool TakeIndexOfChunks(uint64_t offset) {
    if (!Inside(offset, 32)) return false;
    std::array<std::byte, 32> head;
    if (!source_.ReadAt(offset, head).has_value()) return false;
    const uint64_t n = Le32(head, 12);
    const uint64_t base = Le64(head, 20);
    if (FourLetters(head, 0) != "ix" + number_ || Le16(head, 8) != 2 || static_cast<int>(head[11]) != 1 ||
        n > (source_.size() - offset - 32) / 8) {
      return false;
    }
    auto entries = ReadUpTo(source_, offset + 32, 8 * n);
    if (!entries.has_value()) return false;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t at = base + Le32(*entries, 8 * i);
      const uint32_t bytes = Le32(*entries, 8 * i + 4) & 0x7fffffff;
      if (at < 8 || !Inside(at, bytes) || !Add(at, bytes).has_value()) return false;
    }
    return true;
  }

  bool TakeIdx1() {
    if (file_.idx1_offset == 0 || !file_.more.empty() || file_.idx1_bytes > kMaxIndexBytes ||
        !Inside(file_.idx1_offset, file_.idx1_bytes)) {
      return false;
    }
    auto index = ReadUpTo(source_, file_.idx1_offset, file_.idx1_bytes);
    if (!index.has_value()) return false;
    std::optional<uint64_t> base;
    for (size_t at = 0; at + 16 <= index->size(); at += 16) {
      if (!IsMine(FourLetters(*index, at))) continue;
      const uint64_t offset = Le32(*index, at + 8);
      const uint32_t bytes = Le32(*index, at + 12);
      if (!base.has_value()) base = BaseOf(offset, bytes);
      if (!base.has_value() || !Inside(*base + offset + 8, bytes)) return false;
      if (!Add(*base + offset + 8, bytes).has_value()) return false;
    }
    return true;
  }

  // Offsets count from the word "movi" or from the file's beginning: both are in use.
  std::optional<uint64_t> BaseOf(uint64_t offset, uint32_t bytes) {
    for (const uint64_t base : {file_.movi_begin - 4, uint64_t{0}}) {
      if (Agrees({base + offset + 8, bytes})) return base;
    }
    return std::nullopt;
  }

  bool Agrees(const AviChunk& chunk) {
    if (!Inside(chunk.offset, chunk.bytes)) return false;
    const auto head = HeadAt(source_, chunk.offset - 8);
    return head.has_value() && IsMine(head->name) && head->bytes == chunk.bytes;
  }

  // To look at every chunk would be to walk over the file; each is looked at again when it is read.
  bool SamplesAgree() {
    constexpr size_t kSamples = 32;
    const size_t step = std::max<size_t>(1, chunks_.size() / kSamples);
    for (size_t i = 0; i < chunks_.size(); i += step) {
      if (!Agrees(chunks_[i])) return false;
    }
    return Agrees(chunks_.back());
  }

  Status Walk(uint64_t at, uint64_t end) {
    if (end > source_.size()) return BrokenAvi(source_, "it ends before its data does");
    while (at < end) {
      if (end - at < 8) {
        // An odd byte of padding, or less than a chunk: nothing can be in there.
        if (end - at <= 1) return {};
        return BrokenAvi(source_, "it ends inside of a chunk's name");
      }
      MINICPM_ASSIGN(const ChunkHead head, HeadAt(source_, at));
      // Without a written length the data ends where the next part or the index begins.
      if (head.name == "idx1" || head.name == "RIFF") return {};
      at += 8;
      if (head.name == "LIST") {  // a group of chunks: go on inside of it
        at += 4;
        continue;
      }
      if (!IsPrintable(head.name)) {
        return BrokenAvi(source_, "no chunk begins at byte " + std::to_string(at - 8));
      }
      if (head.bytes > end - at) {
        return BrokenAvi(source_, "it ends inside of frame " + std::to_string(chunks_.size()));
      }
      if (IsMine(head.name)) MINICPM_TRY(Add(at, head.bytes));
      at += std::min(Even(head.bytes), end - at);
    }
    return {};
  }

  ByteSource& source_;
  const AviFile& file_;
  const AviStream& stream_;
  int64_t max_chunks_;
  std::string number_;
  std::vector<AviChunk> chunks_;
};

}  // namespace

std::unexpected<Error> BrokenAvi(const ByteSource& source, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, source.name() + ": broken AVI file: " + what);
}

Result<AviFile> ReadAviHeaders(ByteSource& source) {
  if (source.size() < 12) return BrokenAvi(source, "it ends inside of its first header");
  AviFile file;
  MINICPM_ASSIGN(const ChunkHead riff, HeadAt(source, 0));
  // A length that was never written, or too long a one, ends with the file; cut data is noticed list by list.
  const uint64_t riff_end = 8 + Even(riff.bytes);
  const bool written = riff.bytes >= 4 && riff_end <= source.size();
  MINICPM_TRY(ReadFirstSegment(source, written ? riff_end : source.size(), file));
  if (file.streams.empty()) return BrokenAvi(source, "it has no streams");
  if (file.movi_begin == 0) return BrokenAvi(source, "it has no data");
  if (written) MINICPM_TRY(ReadMoreSegments(source, riff_end, file));
  return file;
}

Result<std::vector<AviChunk>> FindAviChunks(ByteSource& source, const AviFile& file, size_t stream,
                                            int64_t max_chunks) {
  return ChunkFinder(source, file, stream, max_chunks).Find();
}

}  // namespace minicpm
