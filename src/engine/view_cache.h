// ViewCache: rows of encoded views by their pixels, so that the parts of a fixed camera's picture that did not change
// are not encoded again. Not for whole media of a conversation: MediaEncoder remembers those by identity.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <vector>

#include "image/image.h"

namespace minicpm {

// A view's rows depend on its size and pixels only, so equal pixels give equal rows, wherever the view stands.
// Threads: one user.
class ViewCache {
 public:
  // noise: a view also counts as unchanged when no value of the view that was encoded at the same place differs by more
  // than this (0..255). 0: exactly equal pixels only. The comparison is always with the pixels that were encoded, so
  // slow drift adds up and is seen.
  explicit ViewCache(int noise) : noise_(noise) {}

  // Views since the last BeginPicture but one stay; older ones are forgotten.
  void BeginPicture();
  // place: number of the view within its picture, and the picture's grid: what makes two views the same place.
  struct Place {
    int view = 0;
    int cols = 0;
    int rows = 0;
    bool operator==(const Place&) const = default;
  };
  // Rows [Q * E] of an equal view, or null. Lifetime: until the next BeginPicture or Insert.
  const std::vector<float>* Find(const Image& view, const Place& place);
  void Insert(const Image& view, const Place& place, std::vector<float> rows);

 private:
  struct Entry {
    std::array<uint8_t, 32> digest;
    Place place;
    int64_t used;  // the picture that used it last
    Image pixels;  // only with noise > 0
    std::vector<float> rows;
  };
  const int noise_;
  int64_t picture_ = 0;
  std::list<Entry> entries_;
};

}  // namespace minicpm
