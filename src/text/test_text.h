// Helpers of this room's tests: small tokenizers made in memory and seeded random text. Not part of the library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace minicpm::testing {

using Json = nlohmann::ordered_json;

// `bytes` in the characters of the byte map.
inline std::string Mapped(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) AppendUtf8(out, ByteToChar(static_cast<uint8_t>(b)));
  return out;
}

struct TestToken {
  std::string text;
  bool special = true;
  bool normalized = false;
  int id = -1;  // -1: the next free one
};

// tokenizer.json with the 256 bytes as ids 0..255, one id per merge (given as plain bytes) from 256 on, then added
// tokens.
inline Json TestTokenizerJson(const std::vector<std::pair<std::string, std::string>>& merges,
                              const std::vector<TestToken>& added = {}, std::string_view pattern = kQwen2Pattern) {
  Json vocab = Json::object();
  Json merge_list = Json::array();
  int next = 0;
  for (int b = 0; b < 256; ++b) vocab[Mapped(std::string(1, static_cast<char>(b)))] = next++;
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(Mapped(left + right))) vocab[Mapped(left + right)] = next++;
    merge_list.push_back(Mapped(left) + " " + Mapped(right));
  }
  Json added_list = Json::array();
  for (const TestToken& token : added) {
    added_list.push_back({{"id", token.id >= 0 ? token.id : next++},
                          {"content", token.text},
                          {"single_word", false},
                          {"lstrip", false},
                          {"rstrip", false},
                          {"normalized", token.normalized},
                          {"special", token.special}});
  }
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", std::string(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"version", "1.0"},
          {"added_tokens", added_list},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
          {"post_processor", bytes},
          {"decoder", bytes},
          {"model", {{"type", "BPE"}, {"dropout", nullptr}, {"vocab", vocab}, {"merges", merge_list}}}};
}

inline Result<Tokenizer> FromJson(const Json& json) {
  TokenizerFiles files;
  files.tokenizer_json = json.dump();
  return Tokenizer::FromFiles(files);
}

// Random text over the given characters.
inline std::string RandomText(std::mt19937& rng, const std::vector<char32_t>& characters, size_t max_length) {
  std::string text;
  const size_t n = rng() % (max_length + 1);
  for (size_t i = 0; i < n; ++i) AppendUtf8(text, characters[rng() % characters.size()]);
  return text;
}

// Letters, digits, marks, symbols and all kinds of white space, apostrophes and contraction letters more than once.
inline const std::vector<char32_t>& MixedCharacters() {
  static const std::vector<char32_t> characters = {
      U'a',   U'B',    U's',    U'S',    U't',    U'T',   U'r',   U'e',   U'v',    U'm',    U'l',    U'L',    U'd',
      U'D',   U'\'',   U'\'',   U'\'',   U'1',    U'2',   U' ',   U' ',   U' ',    U'\n',   U'\n',   U'\r',   U'\t',
      U'.',   U'!',    U'_',    U'-',    U'(',    0x0,    0x1c,   0x7f,   0x85,    0xa0,    0x1680,  0x2009,  0x2028,
      0x202f, 0x3000,  0x200b,  0x180e,  0xfeff,  0x17f,  0x212a, 0x131,  0xe9,    0xdf,    0x301,   0x345,   0x334,
      0x93e,  0x915,   0x94d,   0x5d0,   0x5b0,   0x627,  0x64b,  0xe01,  0xe34,   0xbd,    0x663,   0x2167,  0x2460,
      0x2019, 0x20ac,  0x4e2d,  0x56fd,  0x3042,  0x3099, 0xac00, 0x11a8, 0x1100,  0x1161,  0x1f600, 0x1f3fd, 0x200d,
      0xfe0f, 0x10400, 0x1d400, 0x1d7ce, 0x20000, 0xe000, 0xfffd, 0x20dd, 0x1f1e9, 0x1d165, 0x2f800, 0x344,   0x958,
      0x1e9b, 0x323,   0xc5,    0x212b,  0x1fef,  0x37e};
  return characters;
}

}  // namespace minicpm::testing
