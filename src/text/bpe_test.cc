// Tests of bpe.h against the definition: again and again merge the leftmost pair of the lowest rank.
#include "text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>

namespace minicpm {
namespace {

using ::testing::ElementsAre;

std::array<int32_t, 256> PlainBytes() {
  std::array<int32_t, 256> ids{};
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

std::vector<int32_t> Encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  bpe.Encode(word, scratch, ids);
  return ids;
}

std::vector<int32_t> EncodeByDefinition(const std::vector<Bpe::Merge>& merges, std::string_view word) {
  std::map<std::pair<int32_t, int32_t>, size_t> rank;
  for (size_t i = 0; i < merges.size(); ++i) rank[{merges[i].left, merges[i].right}] = i;
  std::vector<int32_t> ids;
  for (const char c : word) ids.push_back(static_cast<uint8_t>(c));
  while (true) {
    size_t best = merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = rank.find({ids[i], ids[i + 1]});
      if (it != rank.end() && it->second < best) {
        best = it->second;
        at = i;
      }
    }
    if (best == merges.size()) return ids;
    ids[at] = merges[best].result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, MergesByRankThenFromTheLeft) {
  const std::vector<Bpe::Merge> merges = {{'b', 'c', 256}, {'a', 'b', 257}, {'a', 256, 258}, {'a', 'a', 259}};
  const Bpe bpe(PlainBytes(), merges, 260);
  EXPECT_THAT(Encode(bpe, "abc"), ElementsAre(258));
  EXPECT_THAT(Encode(bpe, "ab"), ElementsAre(257));
  EXPECT_THAT(Encode(bpe, "aaa"), ElementsAre(259, 'a'));
  EXPECT_THAT(Encode(bpe, ""), ElementsAre());
  EXPECT_THAT(Encode(bpe, "\xff"), ElementsAre(255));
}

TEST(Bpe, APairThatStandsTwiceCountsAtItsLaterPlace) {
  const std::vector<Bpe::Merge> merges = {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 256}};
  EXPECT_THAT(Encode(Bpe(PlainBytes(), merges, 258), "abc"), ElementsAre('a', 257));
}

TEST(Bpe, AgreesWithTheDefinitionOnRandomMergeLists) {
  std::mt19937 rng(3);
  for (int round = 0; round < 60; ++round) {
    // Tokens are strings over three letters; equal strings get equal ids, as in a vocabulary.
    std::map<std::string, int32_t> ids = {{"a", 'a'}, {"b", 'b'}, {"c", 'c'}};
    std::vector<std::string> texts = {"a", "b", "c"};
    std::vector<Bpe::Merge> merges;
    int32_t next = 256;
    for (int m = 0; m < 25; ++m) {
      const std::string left = texts[rng() % texts.size()];
      const std::string right = texts[rng() % texts.size()];
      const auto [it, is_new] = ids.try_emplace(left + right, next);
      if (is_new) {
        ++next;
        texts.push_back(left + right);
      }
      merges.push_back({ids[left], ids[right], it->second});
    }
    const Bpe bpe(PlainBytes(), merges, next);
    for (int i = 0; i < 200; ++i) {
      std::string word;
      for (size_t n = rng() % 40; n > 0; --n) word += static_cast<char>('a' + rng() % 3);
      ASSERT_EQ(Encode(bpe, word), EncodeByDefinition(merges, word)) << word;
    }
  }
}

TEST(Bpe, AMegabyteOfOneWordIsNoTrouble) {
  std::vector<Bpe::Merge> merges;
  int32_t id = 'a';
  for (int i = 0; i < 12; ++i) {  // a, aa, aaaa, ...
    merges.push_back({id, id, 256 + i});
    id = 256 + i;
  }
  const Bpe bpe(PlainBytes(), merges, 268);
  const auto ids = Encode(bpe, std::string(size_t{1} << 20, 'a'));
  ASSERT_EQ(ids.size(), size_t{1} << 8);
  EXPECT_TRUE(std::ranges::all_of(ids, [](int32_t i) { return i == 267; }));
}

}  // namespace
}  // namespace minicpm
