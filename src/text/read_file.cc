// Implementation of read_file.h.
#include "text/read_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace minicpm {

Result<std::optional<std::string>> ReadTextFile(const std::string& path, size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return std::nullopt;
  if (!std::filesystem::is_regular_file(status)) {
    return Fail(ErrorCode::kIo, Printable(path) + " is not a file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Fail(ErrorCode::kIo, Printable(path) + " cannot be opened");
  std::string bytes;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > max_bytes) {
    return Fail(ErrorCode::kResourceExhausted, Printable(path) + " has " + std::to_string(size) +
                                                   " bytes, expected at most " + std::to_string(max_bytes));
  }
  bytes.resize(error ? 0 : static_cast<size_t>(size));
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (in.bad() || static_cast<size_t>(in.gcount()) != bytes.size()) {
    return Fail(ErrorCode::kIo, Printable(path) + " cannot be read to its end");
  }
  if (bytes.starts_with("version https://git-lfs.github.com/spec/")) {
    return Fail(ErrorCode::kCorrupt, Printable(path) +
                                         " is a git-lfs pointer and not the file itself; expected its contents "
                                         "(git lfs pull fetches them)");
  }
  return bytes;
}

}  // namespace minicpm
