// Implementation of memory_file.h with Linux's memfd.
#include "os/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace minicpm {

MemoryFile::MemoryFile(int descriptor)
    : descriptor_(descriptor), path_("/proc/self/fd/" + std::to_string(descriptor)) {}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<MemoryFile> MemoryFile::Create(std::span<const std::byte> bytes) {
  const int descriptor = memfd_create("minicpm", MFD_CLOEXEC);
  if (descriptor < 0) {
    return Fail(ErrorCode::kIo, std::string("a file in memory cannot be made: ") + std::strerror(errno));
  }
  MemoryFile file(descriptor);
  while (!bytes.empty()) {
    const ssize_t n = write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return Fail(ErrorCode::kIo, std::string("a file in memory cannot be written: ") + std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return file;
}

}  // namespace minicpm
