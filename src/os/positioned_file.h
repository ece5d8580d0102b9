// PositionedFile: reading and writing pieces of a file at given places, for work that streams more than memory holds.
// Not for small files (ReadWholeFile, AtomicFile) or for weights in use (MappedFile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace minicpm {

// Move-only. Threads: ReadAt and WriteAt of places that do not overlap, from any number of threads.
// Errors of all methods: kNotFound, kIo, kResourceExhausted (disk full), kUnsupported (not a regular file); the
// sentence names the file.
class PositionedFile {
 public:
  static Result<PositionedFile> OpenRead(const std::string& path);
  // For reading and writing; what the file holds stays, a missing file is created.
  static Result<PositionedFile> OpenWrite(const std::string& path);
  PositionedFile() = default;
  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;
  ~PositionedFile();

  struct Facts {
    uint64_t bytes = 0;
    int64_t modified_ns = 0;  // since 1970
  };
  Result<Facts> Stat() const;
  // Exactly bytes.size() bytes; kCorrupt when the file ends before.
  Status ReadAt(uint64_t offset, std::span<std::byte> bytes) const;
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) const;
  Status WriteAt(uint64_t offset, std::string_view text) const {
    return WriteAt(offset, std::as_bytes(std::span(text)));
  }
  // Cuts or extends with zeros.
  Status Resize(uint64_t bytes) const;
  // Takes the room on the disk now, where the file system can: then writing cannot fail later for want of it.
  Status Reserve(uint64_t bytes) const;
  // Returns when the data is on the disk.
  Status Sync() const;
  // False when another process holds the lock; the lock ends with this object.
  Result<bool> TryLock() const;
  // Hint: will be read from front to back.
  void ExpectSequentialReads() const;

  const std::string& path() const { return path_; }

 private:
  PositionedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::unexpected<Error> Complain(const char* action) const;  // from errno

  std::string path_;
  int fd_ = -1;
};

// Makes names that were given or taken in `folder` survive a power cut, where the file system can.
void SyncFolder(const std::string& folder);

}  // namespace minicpm
