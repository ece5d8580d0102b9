// POSIX implementation of page_block.h.
#include "os/page_block.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>
#include <utility>

namespace minicpm {
namespace {
constexpr size_t kLargePage = size_t{2} << 20;
}  // namespace

Result<PageBlock> PageBlock::Allocate(size_t bytes) {
  PageBlock block;
  if (bytes == 0) return block;
  const auto failed = [bytes] {
    return Fail(ErrorCode::kResourceExhausted, "memory: the system refused " + std::to_string(bytes) + " bytes");
  };
  if (bytes > SIZE_MAX - kLargePage) return failed();
  const size_t mapped = bytes + kLargePage;
  void* const p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return failed();
  block.mapping_ = p;
  block.mapped_bytes_ = mapped;
  const auto address = reinterpret_cast<uintptr_t>(p);
  block.data_ = static_cast<std::byte*>(p) + (kLargePage - address % kLargePage) % kLargePage;
  block.size_ = bytes;
#ifdef MADV_HUGEPAGE
  madvise(block.data_, bytes, MADV_HUGEPAGE);  // only advice: without it everything works, a little slower
#endif
  return block;
}

PageBlock::PageBlock(PageBlock&& other) noexcept { *this = std::move(other); }

PageBlock& PageBlock::operator=(PageBlock&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PageBlock::~PageBlock() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

}  // namespace minicpm
