// AtomicFile: writes a file under a temporary name beside its place and renames it when complete. Not for appending.
// A half-written output never carries the final name, also after a crash or a power cut.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace minicpm {

// Move-only. Without Commit() the temporary file is removed by the destructor. Threads: none.
class AtomicFile {
 public:
  // `path` may exist: Commit() replaces it. Errors: kNotFound (no such folder), kIo; the sentence names `path`.
  static Result<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }
  // Flushes to the disk, then gives the file its name. Nothing may be written afterwards.
  Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);

  std::string path_;
  std::string temporary_;
  int fd_;
};

}  // namespace minicpm
