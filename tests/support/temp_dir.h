// TempDir: a fresh folder for one test, removed with everything in it at the end of the scope.
// Not for data that a later test needs.
#pragma once

#include <string>
#include <string_view>

namespace minicpm::test {

class TempDir {
 public:
  // Aborts the test program when no folder can be made.
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // The path of `name` inside; nothing is created.
  std::string File(std::string_view name) const;
  // Writes `content` to the file `name`, creating folders on the way, and returns its path.
  std::string Write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

// The bytes of a file that a test just wrote; aborts when it cannot be read.
std::string ReadFileBytes(const std::string& path);

}  // namespace minicpm::test
