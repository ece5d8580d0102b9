// MappedFile: a whole file, read-only, in memory by mmap. Not for small files that are parsed once: ReadWholeFile does
// those.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace minicpm {

// Move-only. Lifetime: bytes() is valid while this object lives. Threads: reading bytes() from several threads is fine.
// A file that another process truncates while it is mapped makes reads fault: checkpoints must not be edited while in
// use.
class MappedFile {
 public:
  // Errors: kNotFound, kIo, kUnsupported (not a regular file); the sentence names `path`.
  static Result<MappedFile> Open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Errors: as Open, and kResourceExhausted when the file is larger than `max_bytes` (the sentence has both numbers).
Result<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

}  // namespace minicpm
