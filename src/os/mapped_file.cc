// POSIX implementation of mapped_file.h: open, check, map or read. Not for writing files.
#include "os/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace minicpm {
namespace {

// Closes a descriptor at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<Error> SystemError(const std::string& path, const char* action, int error) {
  struct stat info = {};
  if (error == ENOENT && ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    return Fail(ErrorCode::kNotFound, Printable(path, 4096) + ": is a link to a file that does not exist");
  }
  if (error == ENOENT || error == ENOTDIR) return Fail(ErrorCode::kNotFound, Printable(path, 4096) + ": no such file");
  return Fail(ErrorCode::kIo, Printable(path, 4096) + ": " + action + ": " + std::generic_category().message(error));
}

struct OpenedFile {
  Descriptor descriptor;
  size_t size_bytes;
};

Result<OpenedFile> OpenRegular(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kNotFound, Printable(path, 4096) + ": no such file (the name holds a zero byte)");
  }
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return SystemError(path, "cannot open", errno);
  struct stat info = {};
  if (::fstat(descriptor.get(), &info) != 0) return SystemError(path, "cannot read its size", errno);
  if (!S_ISREG(info.st_mode)) {
    return Fail(
        ErrorCode::kUnsupported,
        Printable(path, 4096) + (S_ISDIR(info.st_mode) ? ": is a folder, expected a file" : ": not a regular file"));
  }
  return OpenedFile{std::move(descriptor), static_cast<size_t>(info.st_size)};
}

std::unexpected<Error> TooLarge(const std::string& path, size_t size_bytes, size_t max_bytes) {
  return Fail(ErrorCode::kResourceExhausted, Printable(path, 4096) + ": has " + std::to_string(size_bytes) +
                                                 " bytes, at most " + std::to_string(max_bytes) + " are accepted");
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  MINICPM_ASSIGN(const OpenedFile file, OpenRegular(path));
  MappedFile mapped;
  if (file.size_bytes == 0) return mapped;  // mmap refuses empty ranges
  void* data = ::mmap(nullptr, file.size_bytes, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (data == MAP_FAILED) return SystemError(path, "cannot map", errno);
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = file.size_bytes;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  MINICPM_ASSIGN(const OpenedFile file, OpenRegular(path));
  if (file.size_bytes > max_bytes) return TooLarge(path, file.size_bytes, max_bytes);
  std::string content;
  // The size is a hint only (it is 0 for files under /proc, and the file may grow): read until the end.
  size_t piece_bytes = file.size_bytes + 1;
  while (true) {
    const size_t old_size = content.size();
    content.resize(old_size + piece_bytes);
    const ssize_t n = ::read(file.descriptor.get(), content.data() + old_size, piece_bytes);
    if (n < 0 && errno != EINTR) return SystemError(path, "cannot read", errno);
    content.resize(old_size + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return content;
    if (content.size() > max_bytes) return TooLarge(path, content.size(), max_bytes);
    piece_bytes = std::min<size_t>(1 << 16, max_bytes - content.size()) + 1;
  }
}

}  // namespace minicpm
