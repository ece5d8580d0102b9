// SharedLibrary: a library found and loaded while the program runs, and where the program itself lies.
// Not for libraries that the program is linked with.
#pragma once

#include <string>

#include "base/status.h"

namespace minicpm {

// Move-only. The library is never unloaded: threads and exit handlers of libraries it brought along may outlive us.
class SharedLibrary {
 public:
  // Symbols stay private to the library. Errors: kNotFound (no such file), kUnsupported (not loadable here, and why).
  static Result<SharedLibrary> Open(const std::string& path);
  // Errors: kUnsupported when the library has no such symbol.
  Result<void*> Symbol(const char* name) const;
  const std::string& path() const { return path_; }

 private:
  SharedLibrary(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  std::string path_;
  void* handle_;
};

// The folder of the running program's file, links followed. Errors: kIo.
Result<std::string> ProgramFolder();

}  // namespace minicpm
