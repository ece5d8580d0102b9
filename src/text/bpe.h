// Byte-pair encoding of one word: bytes -> ids by the merge list. Knows ids and ranks, no text and no files.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace minicpm {

// Threads: const methods from several threads, each with its own Scratch.
class Bpe {
 public:
  struct Merge {  // its place in the list is its rank: lower ranks merge first
    int32_t left, right, result;
  };

  // Memory that Encode uses again from word to word.
  struct Scratch {
    struct Symbol {
      int32_t id, previous, next;  // neighbours' places, -1 = none; id -1 = merged into its left neighbour
    };
    struct Candidate {
      int32_t rank, place, left, right, result;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  Bpe() = default;
  // Requires: ids in [0, n_ids). A pair that stands in the list twice counts at its later place.
  Bpe(const std::array<int32_t, 256>& byte_ids, std::span<const Merge> merges, int32_t n_ids);

  // Appends the ids of `word`, in O(n log n). Requires: word.size() < 2^31.
  void Encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Right {
    int32_t right, rank, result;
  };
  const Right* Find(int32_t left, int32_t right) const;
  void Propose(Scratch& scratch, int32_t place) const;

  std::array<int32_t, 256> byte_ids_{};
  std::vector<uint32_t> first_;  // rights_[first_[left] .. first_[left + 1]) are the partners of `left`, sorted
  std::vector<Right> rights_;
};

}  // namespace minicpm
