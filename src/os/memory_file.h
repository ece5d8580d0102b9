// MemoryFile: bytes that a library wants as a file with a path, kept in memory and gone with this object.
// Not for anything that should outlive the program.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace minicpm {

// Threads: const methods from any number of threads.
class MemoryFile {
 public:
  // Errors: kResourceExhausted, kIo from the system.
  static Result<MemoryFile> Create(std::span<const std::byte> bytes);
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile();
  // Opened by this process only. Lifetime: this object.
  const std::string& path() const { return path_; }

 private:
  explicit MemoryFile(int descriptor);
  int descriptor_;
  std::string path_;
};

}  // namespace minicpm
