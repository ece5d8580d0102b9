// Tokenizer: bytes <-> token ids by byte-level BPE, always from the model's own files. Not for templates (chat_template.h) or placeholders.
// Fact sheet: preprocessing section 9. Identical ids to the Hugging Face `tokenizers` library on valid UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace minicpm {

// A stretch of prompt text. Special tokens are recognised only in trusted stretches (those the template wrote);
// neighbouring stretches are still encoded as one text, so merges may cross the seam.
struct TextPiece {
  std::string_view text;
  bool trusted = false;
};

// Immutable after Load. Threads: const methods from several threads.
class Tokenizer {
 public:
  // Reads tokenizer.json, or vocab.json + merges.txt with added tokens from added_tokens.json / tokenizer_config.json.
  // Errors: kNotFound, kCorrupt (which file, which entry), kUnsupported (a model type or pre-tokenizer that is not this family's).
  static Result<Tokenizer> Load(const std::string& folder);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Invalid UTF-8 is replaced by U+FFFD (maximal prefixes) before anything else.
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

 private:
  struct Impl;
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
