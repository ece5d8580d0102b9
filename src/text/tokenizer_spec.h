// What the tokenizer files of a checkpoint say, checked for form but not yet for sense. Internal to tokenizer.cc.
// One reader per file; the merging of the files into a tokenizer happens in tokenizer_build.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace minicpm {

inline constexpr int64_t kMaxTokenId = (1 << 22) - 1;
inline constexpr size_t kMaxVocabEntries = 1 << 22;
inline constexpr size_t kMaxEntryBytes = 1 << 16;
inline constexpr size_t kMaxAddedTokens = 1 << 16;
inline constexpr size_t kMaxAddedTokenBytes = 512;

// `text` in quotes, cut short and safe to print; for error sentences.
std::string Quoted(std::string_view text);

struct TokenizerSpec {
  struct Entry {
    std::string_view text;  // in the characters of the byte map
    int32_t id;
  };
  struct Merge {
    std::string_view left, right;
  };
  struct Added {
    std::string text;
    int32_t id;
    bool special;
    bool normalized;   // matched in the NFC form of the text instead of in the text itself
    const char* file;  // where it was found
  };
  std::vector<Entry> vocab;
  std::vector<Merge> merges;
  std::vector<Added> added;
  std::string pattern;
  bool nfc = true;
  const char* vocab_file = "";
  const char* merges_file = "";
  // Whatever the views above point into besides the caller's own strings.
  std::vector<std::shared_ptr<void>> storage;
};

// Lifetime: `files` outlives the result. Errors: kNotFound, kCorrupt, kUnsupported; the sentence begins with the file's
// name.
Result<TokenizerSpec> ReadTokenizerSpec(const TokenizerFiles& files);

}  // namespace minicpm
