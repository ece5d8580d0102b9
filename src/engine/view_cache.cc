// Implementation of view_cache.h: a short list, searched by digest.
#include "engine/view_cache.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "engine/digest.h"

namespace minicpm {
namespace {

std::array<uint8_t, 32> DigestOf(const Image& image) {
  Sha256 hash;
  const int32_t size[2] = {image.width, image.height};
  hash.Update(std::as_bytes(std::span(size)));
  hash.Update(std::as_bytes(std::span(image.rgb)));
  return hash.Finish();
}

bool Near(const Image& a, const Image& b, int noise) {
  if (a.width != b.width || a.height != b.height) return false;
  return std::equal(a.rgb.begin(), a.rgb.end(), b.rgb.begin(),
                    [noise](uint8_t x, uint8_t y) { return std::abs(int{x} - int{y}) <= noise; });
}

}  // namespace

void ViewCache::BeginPicture() {
  ++picture_;
  entries_.remove_if([this](const Entry& e) { return e.used < picture_ - 1; });
}

const std::vector<float>* ViewCache::Find(const Image& view, const Place& place) {
  const auto digest = DigestOf(view);
  for (Entry& e : entries_) {
    const bool same = e.digest == digest || (noise_ > 0 && e.place == place && Near(e.pixels, view, noise_));
    if (!same) continue;
    e.used = picture_;
    return &e.rows;
  }
  return nullptr;
}

void ViewCache::Insert(const Image& view, const Place& place, std::vector<float> rows) {
  entries_.push_back({DigestOf(view), place, picture_, noise_ > 0 ? view : Image(), std::move(rows)});
}

}  // namespace minicpm
