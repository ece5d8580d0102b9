// POSIX implementation of shared_library.h: dlopen, and Linux's /proc for the program's place.
#include "os/shared_library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace minicpm {

Result<SharedLibrary> SharedLibrary::Open(const std::string& path) {
  const std::string name = Printable(path, 4096);
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return Fail(errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
                name + ": cannot find the library: " + std::generic_category().message(errno));
  }
  if (!S_ISREG(info.st_mode)) return Fail(ErrorCode::kUnsupported, name + ": not a file, expected a shared library");
  // Without a slash dlopen would search the system's folders instead.
  const std::string where = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = ::dlopen(where.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Fail(ErrorCode::kUnsupported,
                name + ": cannot load the library: " + Printable(why == nullptr ? "unknown reason" : why, 400));
  }
  return SharedLibrary(path, handle);
}

Result<void*> SharedLibrary::Symbol(const char* name) const {
  void* symbol = ::dlsym(handle_, name);
  if (symbol == nullptr) {
    return Fail(ErrorCode::kUnsupported, Printable(path_, 4096) + ": the library has no function \"" + name + "\"");
  }
  return symbol;
}

Result<std::string> ProgramFolder() {
  std::array<char, 4096> buffer;
  const ssize_t n = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (n <= 0 || static_cast<size_t>(n) == buffer.size()) {
    return Fail(ErrorCode::kIo, "cannot find out where the program lies: " + std::generic_category().message(errno));
  }
  const std::string path(buffer.data(), static_cast<size_t>(n));
  return path.substr(0, path.rfind('/'));
}

}  // namespace minicpm
