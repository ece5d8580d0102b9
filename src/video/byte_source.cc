// The two kinds of byte_source.h.
#include "video/byte_source.h"

#include <cstring>
#include <utility>

#include "os/positioned_file.h"

namespace minicpm {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(PositionedFile file, uint64_t size, std::string name)
      : file_(std::move(file)), size_(size), name_(std::move(name)) {}
  uint64_t size() const override { return size_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> bytes) override { return file_.ReadAt(offset, bytes); }
  const std::string& name() const override { return name_; }

 private:
  PositionedFile file_;
  uint64_t size_;
  std::string name_;
};

class MemoryBytes : public ByteSource {
 public:
  MemoryBytes(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> bytes) override {
    if (offset > bytes_.size() || bytes.size() > bytes_.size() - offset) {
      return Fail(ErrorCode::kCorrupt, name_ + ": the file ends where more is expected");
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
    return {};
  }
  const std::string& name() const override { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  MINICPM_ASSIGN(PositionedFile file, PositionedFile::OpenRead(path));
  MINICPM_ASSIGN(const PositionedFile::Facts facts, file.Stat());
  return std::make_unique<FileSource>(std::move(file), facts.bytes, Printable(path, 300));
}

std::unique_ptr<ByteSource> MemorySource(std::span<const std::byte> bytes, const std::string& name) {
  return std::make_unique<MemoryBytes>(bytes, Printable(name, 300));
}

}  // namespace minicpm
