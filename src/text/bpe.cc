// Implementation of bpe.h: a linked list of symbols and a heap of possible merges, lowest rank and then leftmost first.
#include "text/bpe.h"

#include <algorithm>

namespace minicpm {
namespace {

bool Later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

}  // namespace

Bpe::Bpe(const std::array<int32_t, 256>& byte_ids, std::span<const Merge> merges, int32_t n_ids)
    : byte_ids_(byte_ids), first_(static_cast<size_t>(n_ids) + 1) {
  std::vector<uint32_t> order(merges.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const Merge& x = merges[a];
    const Merge& y = merges[b];
    if (x.left != y.left) return x.left < y.left;
    if (x.right != y.right) return x.right < y.right;
    return a < b;
  });
  rights_.reserve(merges.size());
  int32_t last_left = -1;
  for (const uint32_t i : order) {
    const Merge& merge = merges[i];
    const Right right{merge.right, static_cast<int32_t>(i), merge.result};
    if (merge.left == last_left && rights_.back().right == merge.right) {
      rights_.back() = right;
      continue;
    }
    last_left = merge.left;
    rights_.push_back(right);
    ++first_[static_cast<size_t>(merge.left) + 1];
  }
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

const Bpe::Right* Bpe::Find(int32_t left, int32_t right) const {
  const Right* const begin = rights_.data() + first_[static_cast<size_t>(left)];
  const Right* const end = rights_.data() + first_[static_cast<size_t>(left) + 1];
  const Right* const it = std::lower_bound(begin, end, right, [](const Right& r, int32_t v) { return r.right < v; });
  return it != end && it->right == right ? it : nullptr;
}

void Bpe::Propose(Scratch& scratch, int32_t place) const {
  const auto& symbol = scratch.symbols[static_cast<size_t>(place)];
  if (symbol.next < 0) return;
  const int32_t right_id = scratch.symbols[static_cast<size_t>(symbol.next)].id;
  if (const Right* merge = Find(symbol.id, right_id)) {
    scratch.heap.push_back({merge->rank, place, symbol.id, right_id, merge->result});
    std::ranges::push_heap(scratch.heap, Later);
  }
}

void Bpe::Encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto n = static_cast<int32_t>(word.size());
  if (n == 0) return;
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < n; ++i) {
    symbols.push_back({byte_ids_[static_cast<uint8_t>(word[static_cast<size_t>(i)])], i - 1, i + 1 < n ? i + 1 : -1});
  }
  for (int32_t i = 0; i + 1 < n; ++i) Propose(scratch, i);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, Later);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    auto& left = symbols[static_cast<size_t>(top.place)];
    if (left.id != top.left || left.next < 0) continue;  // one of the two has been merged since
    auto& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != top.right) continue;
    left.id = top.result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.place;
    if (left.previous >= 0) Propose(scratch, left.previous);
    Propose(scratch, top.place);
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    out.push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace minicpm
