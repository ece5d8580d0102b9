// PageBlock: a large private piece of zeroed memory straight from the system, with 2 MiB pages where it offers them.
// For measuring and for big long-lived pools; everything else uses the Arena.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace minicpm {

// Move-only. The first byte lies on a 2 MiB boundary.
class PageBlock {
 public:
  // Errors: kResourceExhausted with the number of bytes.
  static Result<PageBlock> Allocate(size_t bytes);
  PageBlock() = default;
  PageBlock(PageBlock&& other) noexcept;
  PageBlock& operator=(PageBlock&& other) noexcept;
  ~PageBlock();

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace minicpm
