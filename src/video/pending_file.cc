// A name that nobody else has, and at the end flush, rename, flush of the folder. See pending_file.h for what it is not
// for.
#include "video/pending_file.h"

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "os/positioned_file.h"

namespace minicpm {

Result<PendingFile> PendingFile::Create(const std::string& path) {
  const std::filesystem::path final_path(path);
  const std::string ending = final_path.extension().string();
  std::error_code error;
  if (std::filesystem::exists(final_path, error) && !std::filesystem::is_regular_file(final_path, error)) {
    return Fail(ErrorCode::kInvalidArgument, Printable(path, 300) + ": not a regular file, so it is not replaced");
  }
  std::random_device random;  // two programs may write the same path
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string temporary = path + ".part-" + std::to_string(random()) + ending;
    if (std::filesystem::exists(temporary, error)) continue;
    MINICPM_ASSIGN(const PositionedFile file, PositionedFile::OpenWrite(temporary));
    return PendingFile(path, temporary);
  }
  return Fail(ErrorCode::kIo, Printable(path, 300) + ": too many unfinished .part files beside it");
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

PendingFile::~PendingFile() {
  if (temporary_.empty()) return;
  std::error_code error;
  std::filesystem::remove(temporary_, error);
}

Status PendingFile::Commit() {
  {
    MINICPM_ASSIGN(const PositionedFile file, PositionedFile::OpenWrite(temporary_));
    MINICPM_TRY(file.Sync());
  }
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) {
    return Fail(ErrorCode::kIo, Printable(path_, 300) + ": cannot give the file its name: " + error.message());
  }
  temporary_.clear();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  SyncFolder(folder.empty() ? "." : folder);
  return {};
}

}  // namespace minicpm
