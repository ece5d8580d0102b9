// Implementation of string_index.h: open addressing at half load; no chain of an honest vocabulary comes near the
// bound.
#include "text/string_index.h"

#include <bit>
#include <functional>

namespace minicpm {
namespace {

constexpr size_t kMaxChain = 1000;

}  // namespace

StringIndex::StringIndex(size_t n_texts) : slots_(std::bit_ceil(2 * n_texts + 2)) {}

StringIndex::Added StringIndex::Add(std::string_view text, int32_t id) {
  const size_t mask = slots_.size() - 1;
  size_t at = std::hash<std::string_view>{}(text)&mask;
  for (size_t steps = 0; steps < kMaxChain; ++steps, at = (at + 1) & mask) {
    if (slots_[at].id < 0) {
      slots_[at] = {text, id};
      return Added::kNew;
    }
    if (slots_[at].text == text) return Added::kAlreadyThere;
  }
  return Added::kTooManyCollisions;
}

int32_t StringIndex::Find(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t at = std::hash<std::string_view>{}(text)&mask;
  for (size_t steps = 0; steps < kMaxChain; ++steps, at = (at + 1) & mask) {
    if (slots_[at].id < 0) return -1;
    if (slots_[at].text == text) return slots_[at].id;
  }
  return -1;
}

}  // namespace minicpm
