// SourceReader: reads the files of a checkpoint once, from front to back, on a thread of its own: every byte goes into
// the file's SHA-256, and the bytes of wanted tensors come out in blocks. Not for encoding.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace minicpm {

// A piece of a file that a tensor covers.
struct WantedSpan {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t block_bytes = 0;  // pieces of this size, the last may be shorter
  size_t tensor = 0;
};

struct SourceFile {
  std::string path;
  uint64_t bytes = 0;
  std::vector<WantedSpan> wanted;  // ascending, apart from each other
};

// Threads: Next() by one thread.
class SourceReader {
 public:
  explicit SourceReader(std::vector<SourceFile> files);
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  struct Block {
    // A piece of a tensor, or, when `data` is empty, the end of file number `file`.
    size_t tensor = 0;
    uint64_t offset = 0;  // in the tensor
    std::vector<std::byte> data;
    size_t file = 0;
    std::string sha256;  // at the end of a file
  };
  // The next block; nothing after the last. Errors: those of reading.
  Result<std::optional<Block>> Next();
  // Gives the memory of a block back for the next ones.
  void Recycle(std::vector<std::byte> data);
  // Bytes read so far, of all files.
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  void Run();
  Status ReadFile(size_t file);
  // False when the reader is no longer wanted.
  bool Push(Block block);
  std::vector<std::byte> Buffer(size_t bytes);

  const std::vector<SourceFile> files_;
  std::atomic<uint64_t> bytes_read_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> queue_;
  std::vector<std::vector<std::byte>> spare_;
  Status result_;
  bool ended_ = false;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace minicpm
