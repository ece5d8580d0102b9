// Implementation of added_tokens.h: the sorted list is narrowed byte by byte, as one walks down a trie.
#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace minicpm {

AddedTokenMatcher::AddedTokenMatcher(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &Token::text);
  for (const Token& token : tokens_) starts_[static_cast<uint8_t>(token.text[0])] = true;
}

AddedTokenMatcher::Match AddedTokenMatcher::Find(std::string_view text, size_t begin, size_t end) const {
  for (size_t pos = begin; pos < end; ++pos) {
    if (!starts_[static_cast<uint8_t>(text[pos])]) continue;
    auto low = tokens_.begin();
    auto high = tokens_.end();
    Match longest;
    for (size_t depth = 0; pos + depth < end && low != high; ++depth) {
      const auto byte = static_cast<uint8_t>(text[pos + depth]);
      const auto byte_of = [depth](const Token& t) {  // -1: the token ends here
        return depth < t.text.size() ? static_cast<int>(static_cast<uint8_t>(t.text[depth])) : -1;
      };
      low = std::lower_bound(low, high, byte, [&](const Token& t, int b) { return byte_of(t) < b; });
      high = std::upper_bound(low, high, byte, [&](int b, const Token& t) { return b < byte_of(t); });
      if (low != high && low->text.size() == depth + 1) longest = {pos, pos + depth + 1, low->id};
    }
    if (longest.id >= 0) return longest;
  }
  return {};
}

int32_t AddedTokenMatcher::Id(std::string_view text) const {
  const auto it = std::ranges::lower_bound(tokens_, text, {}, [](const Token& t) { return std::string_view(t.text); });
  return it != tokens_.end() && it->text == text ? it->id : -1;
}

}  // namespace minicpm
