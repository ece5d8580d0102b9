// The parts of a loaded tokenizer. Internal to tokenizer.cc and tokenizer_build.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace minicpm {

struct Tokenizer::Impl {
  explicit Impl(PreTokenizer splitter) : pre_tokenizer(std::move(splitter)) {}

  // Errors: kCorrupt, when the files contradict themselves or each other.
  static Result<std::unique_ptr<Impl>> Build(const TokenizerSpec& spec);

  int32_t n_ids() const { return static_cast<int32_t>(offsets.size()) - 1; }

  PreTokenizer pre_tokenizer;
  Bpe bpe;
  bool nfc = true;
  AddedTokenMatcher all_added;         // by exact text
  AddedTokenMatcher raw_added;         // matched in the text itself
  AddedTokenMatcher normalized_added;  // matched in its NFC form
  std::string bytes;                   // of all tokens, one after the other
  std::vector<uint32_t> offsets;       // token i = bytes[offsets[i], offsets[i + 1])
  std::vector<bool> special;           // by id
};

}  // namespace minicpm
