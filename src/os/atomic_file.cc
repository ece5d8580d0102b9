// POSIX implementation of atomic_file.h: exclusive create, write, fsync, rename, fsync of the folder.
#include "os/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace minicpm {
namespace {

std::unexpected<Error> SystemError(const std::string& path, const char* action, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR  ? ErrorCode::kNotFound
                         : error == ENOSPC || error == EDQUOT ? ErrorCode::kResourceExhausted
                                                              : ErrorCode::kIo;
  return Fail(code, Printable(path, 4096) + ": " + action + ": " + std::generic_category().message(error));
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::Create(const std::string& path) {
  // A rename would silently turn a device or a pipe into an ordinary file. Folders are refused by the rename itself.
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, Printable(path, 4096) + ": not a regular file, so it is not replaced");
  }
  // Two programs, or two threads of one, may write the same path: each gets its own temporary file, the last rename
  // wins.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string temporary = path + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0) return AtomicFile(path, std::move(temporary), fd);
    if (errno != EEXIST) return SystemError(path, "cannot create", errno);
  }
  return Fail(ErrorCode::kIo, Printable(path, 4096) + ": too many unfinished .part files beside it");
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB at once.
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path_, "cannot write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::Commit() {
  if (::fsync(fd_) != 0) return SystemError(path_, "cannot flush", errno);
  if (::close(std::exchange(fd_, -1)) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    return SystemError(path_, "cannot close", error);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    return SystemError(path_, "cannot give the file its name", error);
  }
  // The rename itself must reach the disk too; some file systems cannot flush a folder, which loses nothing written
  // here.
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
  return {};
}

}  // namespace minicpm
