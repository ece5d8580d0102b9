// The tree of nearest_tick.h: built once per video, searched once per frame. Not for points that are not ticks.
#include "video/nearest_tick.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace minicpm {
namespace {

constexpr int64_t kLeafSize = 16;  // cKDTree's default

double TimeOf(int64_t tick) { return static_cast<double>(tick) * 0.1; }

}  // namespace

NearestTick::NearestTick(int64_t n_ticks) : order_(static_cast<size_t>(n_ticks)) {
  MINICPM_CHECK(n_ticks >= 1);
  std::iota(order_.begin(), order_.end(), int64_t{0});
  Build(0, n_ticks);
}

int NearestTick::Build(int64_t begin, int64_t end) {
  const int me = static_cast<int>(nodes_.size());
  const auto first = order_.begin() + begin;
  const auto last = order_.begin() + end;
  const auto [least, most] = std::minmax_element(first, last);
  nodes_.push_back({.begin = begin, .end = end, .least = TimeOf(*least), .most = TimeOf(*most), .split = 0});
  if (end - begin <= kLeafSize) return me;
  const auto middle = first + (end - begin) / 2;
  std::nth_element(first, middle, last, [](int64_t a, int64_t b) { return TimeOf(a) < TimeOf(b); });
  nodes_[me].split = TimeOf(*middle);
  const int64_t half = begin + (end - begin) / 2;
  const int less = Build(begin, half);
  const int greater = Build(half, end);
  nodes_[me].less = less;
  nodes_[me].greater = greater;
  return me;
}

void NearestTick::Search(int node, double time, Best& best) const {
  const Node& n = nodes_[node];
  const double outside = time < n.least ? n.least - time : time > n.most ? time - n.most : 0.0;
  if (outside * outside > best.distance) return;
  if (n.less < 0) {
    for (int64_t i = n.begin; i < n.end; ++i) {
      const double apart = TimeOf(order_[i]) - time;
      if (apart * apart < best.distance) best = {.distance = apart * apart, .tick = order_[i]};
    }
    return;
  }
  const bool left_first = time < n.split;
  Search(left_first ? n.less : n.greater, time, best);
  Search(left_first ? n.greater : n.less, time, best);
}

int64_t NearestTick::Find(double time) const {
  Best best{.distance = std::numeric_limits<double>::infinity(), .tick = 0};
  Search(0, time, best);
  return best.tick;
}

}  // namespace minicpm
