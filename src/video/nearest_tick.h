// The nearest multiple of 0.1 s to a time, with exact ties broken as the reference breaks them. Not for anything else.
#pragma once

#include <cstdint>
#include <vector>

namespace minicpm {

// The reference asks scipy's cKDTree, which for two equally near points answers with the one it meets first. Which one
// that is depends on how the tree was built: median splits by nth_element, leaves of at most 16 points in whatever
// order the splits left them. This class builds and walks the same tree (verified against scipy with libstdc++'s
// nth_element; another standard library may break ties the other way, which moves an id by one).
class NearestTick {
 public:
  // Points i * 0.1, 0 <= i < n_ticks. Requires: n_ticks >= 1.
  explicit NearestTick(int64_t n_ticks);

  int64_t Find(double time) const;

 private:
  struct Node {
    int64_t begin, end;  // in order_
    double least, most;  // times of its points
    double split;
    int less = -1;  // children; -1: a leaf
    int greater = -1;
  };
  struct Best {
    double distance;
    int64_t tick;
  };
  int Build(int64_t begin, int64_t end);
  void Search(int node, double time, Best& best) const;

  std::vector<int64_t> order_;
  std::vector<Node> nodes_;
};

}  // namespace minicpm
