// Implementation of page_cache.h.
#include "os/page_cache.h"

#include <cerrno>

#if defined(__unix__)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace minicpm {

Status DropFromPageCache(const std::string& path) {
#if defined(__unix__) && defined(POSIX_FADV_DONTNEED)
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, Printable(path, 400) + ": cannot be opened");
  }
  fdatasync(fd);  // pages that are not on the disk yet cannot be dropped
  const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  if (error != 0) return Fail(ErrorCode::kIo, Printable(path, 400) + ": cannot be dropped from the page cache");
  return {};
#else
  return Fail(ErrorCode::kUnsupported, Printable(path, 400) + ": this system cannot drop a file from its cache");
#endif
}

}  // namespace minicpm
