// PendingFile: a path beside the final one for a writer that needs to seek or opens files itself, renamed when done.
// Internal to this room. Not for files written from front to back: os/atomic_file.h.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace minicpm {

// Move-only. Without Commit() the temporary file is removed by the destructor.
class PendingFile {
 public:
  // Creates the empty temporary file; it keeps the final name's ending. Errors: kNotFound (no such folder), kIo.
  static Result<PendingFile> Create(const std::string& path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  // The temporary file, for whoever writes it.
  const std::string& temporary() const { return temporary_; }
  // To the disk, then its name. The writer must have closed it.
  Status Commit();

 private:
  PendingFile(std::string path, std::string temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}

  std::string path_;
  std::string temporary_;  // empty: nothing to remove
};

}  // namespace minicpm
