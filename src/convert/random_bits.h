// Random numbers that are the same on every machine and can be had from any place on. Not for secrets or sampling.
#pragma once

#include <cstdint>
#include <string_view>

namespace minicpm {

// Number `i` of the stream `key` (splitmix64).
constexpr uint64_t RandomBits(uint64_t key, uint64_t i) {
  uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The stream of a name under a seed.
constexpr uint64_t RandomKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return RandomBits(hash, seed);
}

}  // namespace minicpm
