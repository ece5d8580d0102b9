// Implementation of arena.h. `used_` counts as if everything lay in one block, so the high-water mark is the size to
// keep.
#include "tensor/arena.h"

#include <algorithm>

namespace minicpm {

AlignedBytes AllocateAligned(size_t bytes) {
  return AlignedBytes(static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 64), std::align_val_t{64})));
}

void* Arena::Allocate(size_t bytes) {
  const size_t rounded = (bytes + 63) / 64 * 64;
  const size_t offset = used_;
  used_ += rounded;
  high_water_ = std::max(high_water_, used_);
  if (used_ <= capacity_) return block_.get() + offset;
  overflow_.push_back({offset, rounded, AllocateAligned(rounded)});
  return overflow_.back().memory.get();
}

size_t Arena::overflow_bytes() const {
  size_t bytes = 0;
  for (const Overflow& piece : overflow_) bytes += piece.bytes;
  return bytes;
}

void Arena::Release(size_t mark) {
  used_ = mark;
  while (!overflow_.empty() && overflow_.back().offset >= mark) overflow_.pop_back();
}

void Arena::Reset() {
  used_ = 0;
  overflow_.clear();
  if (high_water_ > capacity_) {
    block_.reset();
    block_ = AllocateAligned(high_water_);
    capacity_ = high_water_;
  }
}

void Arena::Reserve(size_t bytes) {
  MINICPM_CHECK(used_ == 0);
  high_water_ = std::max(high_water_, bytes);
  Reset();
}

}  // namespace minicpm
