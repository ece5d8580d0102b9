// POSIX implementation of positioned_file.h.
#include "os/positioned_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace minicpm {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux moves at most 2 GiB in one call

std::unexpected<Error> SystemError(const std::string& path, const char* action, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR  ? ErrorCode::kNotFound
                         : error == ENOSPC || error == EDQUOT ? ErrorCode::kResourceExhausted
                                                              : ErrorCode::kIo;
  return Fail(code, Printable(path, 4096) + ": " + action + ": " + std::generic_category().message(error));
}

Status CheckRegular(const std::string& path, int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return SystemError(path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kUnsupported, Printable(path, 4096) + ": expected a regular file");
  }
  return {};
}

}  // namespace

std::unexpected<Error> PositionedFile::Complain(const char* action) const { return SystemError(path_, action, errno); }

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

PositionedFile& PositionedFile::operator=(PositionedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

PositionedFile::~PositionedFile() {
  if (fd_ >= 0) ::close(fd_);
}

// O_NONBLOCK: opening a pipe must not wait for a writer; it means nothing for regular files.
Result<PositionedFile> PositionedFile::OpenRead(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "cannot be opened", errno);
  PositionedFile file(path, fd);
  MINICPM_TRY(CheckRegular(path, fd));
  return file;
}

Result<PositionedFile> PositionedFile::OpenWrite(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd < 0) return SystemError(path, "cannot be written", errno);
  PositionedFile file(path, fd);
  MINICPM_TRY(CheckRegular(path, fd));
  return file;
}

Result<PositionedFile::Facts> PositionedFile::Stat() const {
  struct stat info = {};
  if (::fstat(fd_, &info) != 0) return Complain("cannot be examined");
  return Facts{static_cast<uint64_t>(info.st_size),
               int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec}};
}

Status PositionedFile::ReadAt(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Complain("cannot be read");
    if (n == 0) {
      return Fail(ErrorCode::kCorrupt, Printable(path_, 4096) + ": ends at byte " + std::to_string(offset) +
                                           ", expected " + std::to_string(bytes.size()) + " more");
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status PositionedFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Complain("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status PositionedFile::Resize(uint64_t bytes) const {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return Complain("cannot be given its size");
  return {};
}

Status PositionedFile::Reserve(uint64_t bytes) const {
#if defined(__linux__)
  // Not posix_fallocate: where the file system cannot reserve, that writes zeros for minutes.
  if (bytes == 0 || ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return {};
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) return Complain("cannot take room on the disk");
#endif
  return {};
}

Status PositionedFile::Sync() const {
  if (::fdatasync(fd_) != 0) return Complain("cannot be flushed");
  return {};
}

Result<bool> PositionedFile::TryLock() const {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return Complain("cannot be locked");
}

void PositionedFile::ExpectSequentialReads() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL); }

void SyncFolder(const std::string& folder) {
  if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace minicpm
