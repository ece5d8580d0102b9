// Finds added tokens (<|im_start|>, <image>, ...) in a text: leftmost first, the longest of those that begin there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minicpm {

// Threads: const methods from several threads.
class AddedTokenMatcher {
 public:
  struct Token {
    std::string text;
    int32_t id;
  };
  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;  // -1: nothing found
  };

  AddedTokenMatcher() = default;
  // Requires: texts are not empty, each stands there once.
  explicit AddedTokenMatcher(std::vector<Token> tokens);

  bool empty() const { return tokens_.empty(); }
  // The first match that lies inside [begin, end).
  Match Find(std::string_view text, size_t begin, size_t end) const;
  // Id of the token that is exactly `text`, or -1.
  int32_t Id(std::string_view text) const;

 private:
  std::vector<Token> tokens_;  // sorted by text
  std::array<bool, 256> starts_{};
};

}  // namespace minicpm
