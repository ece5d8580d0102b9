// Implementation of temp_dir.h.
#include "tests/support/temp_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace minicpm::test {

TempDir::TempDir() {
  path_ = (std::filesystem::temp_directory_path() / "minicpm-test-XXXXXX").string();
  MINICPM_CHECK(::mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::File(std::string_view name) const { return (std::filesystem::path(path_) / name).string(); }

std::string TempDir::Write(std::string_view name, std::string_view content) const {
  const std::filesystem::path path = File(name);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  MINICPM_CHECK(out.good());
  return path.string();
}

std::string ReadFileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  MINICPM_CHECK(in.good());
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

}  // namespace minicpm::test
