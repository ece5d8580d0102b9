// Where a container reader gets its bytes: a file, or memory (fuzzers, tests). Internal to this room.
// Not for streams without a size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace minicpm {

// Threads: one user at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Exactly bytes.size() bytes. Errors: kCorrupt when the source ends before, kIo.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> bytes) = 0;
  // For messages, safe to print.
  virtual const std::string& name() const = 0;
};

// Errors: kNotFound, kIo, kUnsupported (not a regular file).
Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);
// Lifetime: `bytes` must outlive the source.
std::unique_ptr<ByteSource> MemorySource(std::span<const std::byte> bytes, const std::string& name);

}  // namespace minicpm
