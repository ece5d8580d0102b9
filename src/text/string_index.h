// Text -> id while a tokenizer is being built: a hash table that refuses, in bounded time, keys made to collide.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace minicpm {

// Lifetime: the texts outlive the index.
class StringIndex {
 public:
  explicit StringIndex(size_t n_texts);

  enum class Added { kNew, kAlreadyThere, kTooManyCollisions };
  // Requires: at most n_texts texts, id >= 0.
  Added Add(std::string_view text, int32_t id);
  // The id of `text`, or -1.
  int32_t Find(std::string_view text) const;

 private:
  struct Slot {
    std::string_view text;
    int32_t id = -1;
  };
  std::vector<Slot> slots_;
};

}  // namespace minicpm
