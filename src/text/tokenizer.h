// Tokenizer: bytes <-> token ids by byte-level BPE, always from the model's own files. Not for templates
// (chat_template.h). Gives the ids of the Hugging Face `tokenizers` library on valid UTF-8 (docs/verification.md has
// the figures).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace minicpm {

// A stretch of prompt text. Added tokens, special or not (<|im_end|>, <think>, ...), are recognised only in trusted
// stretches (those the template wrote); neighbours are still encoded as one text, so merges may cross the seam.
struct TextPiece {
  std::string_view text;
  bool trusted = false;
};

// Contents of the files of a checkpoint that describe its tokenizer; nothing = there is no such file.
struct TokenizerFiles {
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> vocab_json;
  std::optional<std::string> merges_txt;
  std::optional<std::string> added_tokens_json;
  std::optional<std::string> tokenizer_config_json;
};

// Immutable after Load. Threads: const methods from several threads.
class Tokenizer {
 public:
  // Reads tokenizer.json or, when there is none, vocab.json + merges.txt (with the Qwen2 pre-tokenizer); added tokens
  // also from tokenizer_config.json (added_tokens_decoder) and, without a tokenizer.json, from added_tokens.json.
  // Errors: kNotFound, kIo, kCorrupt (which file, which entry), kResourceExhausted (a file of absurd size),
  // kUnsupported (a model type, normaliser, pre-tokenizer or flag of an added token that the families do not have).
  static Result<Tokenizer> Load(const std::string& folder);
  // The same from memory.
  static Result<Tokenizer> FromFiles(const TokenizerFiles& files);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Invalid UTF-8 is replaced by U+FFFD (maximal prefixes) before anything else. allow_special = the text is trusted.
  // Requires: less than 2 GiB of text.
  std::vector<int32_t> Encode(std::span<const TextPiece> pieces) const;
  std::vector<int32_t> Encode(std::string_view text, bool allow_special = false) const;

  // Bytes of all ids, which may end inside a UTF-8 sequence; unknown ids give nothing.
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;
  // The bytes one id stands for (special tokens: their text). Lifetime: of the tokenizer. Empty for unknown ids.
  std::string_view Bytes(int32_t id) const;

  bool IsSpecial(int32_t id) const;
  // Id of an added token by its exact text, or -1.
  int32_t AddedTokenId(std::string_view text) const;
  int32_t vocab_size() const;  // highest id + 1

  struct Impl;  // tokenizer_impl.h

 private:
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns a stream of ids into text that never ends inside a UTF-8 sequence.
class StreamDecoder {
 public:
  // skip_special: special tokens give nothing. Lifetime: `tokenizer` outlives this.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true);
  // Text that became complete with this id (maybe empty). Lifetime of the view: until the next call.
  std::string_view Push(int32_t id);
  // Whatever is left, invalid rest replaced by U+FFFD.
  std::string_view Finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string pending_;
  std::string out_;
};

}  // namespace minicpm
