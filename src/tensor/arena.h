// Arena: one block of scratch memory, handed out in 64-byte aligned pieces, freed all at once. Not for anything that
// outlives a step. Grows only when a step needs more than any step before it, so steady state allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "tensor/tensor.h"

namespace minicpm {

struct AlignedDelete {
  void operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }
};
// 64-byte aligned, uninitialised.
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;
AlignedBytes AllocateAligned(size_t bytes);

// Threads: none; one Arena per Compute.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised room for `n` objects of T, 64-byte aligned. Lifetime: until the enclosing ArenaScope ends or Reset().
  template <class T>
  T* New(int64_t n) {
    return static_cast<T*>(Allocate(static_cast<size_t>(n) * sizeof(T)));
  }
  Matrix NewMatrix(int64_t rows, int64_t cols) { return {New<float>(rows * cols), rows, cols}; }

  // Forgets everything; merges overflow blocks so that the next step fits into one.
  void Reset();
  // Makes sure that `bytes` fit without another allocation. Requires: nothing handed out since Reset().
  void Reserve(size_t bytes);
  size_t capacity_bytes() const { return capacity_; }
  // Memory held beside the block because a step needs more than any before.
  size_t overflow_bytes() const;

 private:
  friend class ArenaScope;
  void* Allocate(size_t bytes);
  // Forgets what was handed out since used_ was `mark`.
  void Release(size_t mark);

  struct Overflow {
    size_t offset;  // as if it lay in block_
    size_t bytes;
    AlignedBytes memory;
  };

  AlignedBytes block_;
  size_t capacity_ = 0;
  size_t used_ = 0;  // may pass capacity_: then overflow_ holds the rest
  size_t high_water_ = 0;
  std::vector<Overflow> overflow_;  // merged into block_ by the next Reset()
};

// Gives back everything allocated since its construction (stack discipline).
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
  ~ArenaScope() { arena_.Release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

}  // namespace minicpm
