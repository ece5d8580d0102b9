// Implementation of source_reader.h.
#include "convert/source_reader.h"

#include <algorithm>
#include <utility>

#include "engine/digest.h"
#include "os/positioned_file.h"

namespace minicpm {
namespace {

constexpr size_t kQueuedBlocks = 3;
constexpr uint64_t kSkipBlock = uint64_t{4} << 20;  // for bytes that are only hashed

}  // namespace

SourceReader::SourceReader(std::vector<SourceFile> files) : files_(std::move(files)), thread_([this] { Run(); }) {}

SourceReader::~SourceReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SourceReader::Run() {
  Status result;
  for (size_t i = 0; i < files_.size() && result.has_value(); ++i) result = ReadFile(i);
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  ended_ = true;
  changed_.notify_all();
}

std::vector<std::byte> SourceReader::Buffer(size_t bytes) {
  std::vector<std::byte> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      buffer = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  buffer.resize(bytes);
  return buffer;
}

void SourceReader::Recycle(std::vector<std::byte> data) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() < kQueuedBlocks) spare_.push_back(std::move(data));
}

bool SourceReader::Push(Block block) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || queue_.size() < kQueuedBlocks; });
  if (stop_) return false;
  queue_.push_back(std::move(block));
  changed_.notify_all();
  return true;
}

Status SourceReader::ReadFile(size_t file) {
  const SourceFile& source = files_[file];
  MINICPM_ASSIGN(const PositionedFile input, PositionedFile::OpenRead(source.path));
  input.ExpectSequentialReads();
  Sha256 hash;
  uint64_t at = 0;
  std::vector<std::byte> skipped;
  const auto skip_to = [&](uint64_t end) -> Status {
    while (at < end) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return {};
      }
      skipped.resize(std::min(kSkipBlock, end - at));
      MINICPM_TRY(input.ReadAt(at, skipped));
      hash.Update(skipped);
      at += skipped.size();
      bytes_read_ += skipped.size();
    }
    return {};
  };
  for (const WantedSpan& span : source.wanted) {
    MINICPM_TRY(skip_to(span.offset));
    for (uint64_t offset = 0; offset < span.bytes;) {
      const uint64_t n = std::min(span.block_bytes, span.bytes - offset);
      Block block;
      block.tensor = span.tensor;
      block.offset = offset;
      block.file = file;
      block.data = Buffer(n);
      MINICPM_TRY(input.ReadAt(at, block.data));
      hash.Update(block.data);
      at += n;
      offset += n;
      bytes_read_ += n;
      if (!Push(std::move(block))) return {};
    }
  }
  MINICPM_TRY(skip_to(source.bytes));
  Block end;
  end.file = file;
  end.sha256 = Hex(hash.Finish());
  Push(std::move(end));
  return {};
}

Result<std::optional<SourceReader::Block>> SourceReader::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !queue_.empty(); });
  if (queue_.empty()) {
    if (!result_.has_value()) return std::unexpected(result_.error());
    return std::optional<Block>();
  }
  Block block = std::move(queue_.front());
  queue_.pop_front();
  changed_.notify_all();
  return std::optional<Block>(std::move(block));
}

}  // namespace minicpm
