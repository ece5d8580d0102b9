// Character classes and canonical composition (NFC) as the Hugging Face tokenizers compute them. Not for UTF-8 itself:
// base/utf8.h. Data from utf8proc, corrected where that library's Unicode version and the tokenizers' differ (see
// unicode.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace minicpm {

enum class CharClass : uint8_t { kLetter, kNumber, kMark, kSpace, kOther };  // \p{L} \p{N} \p{M} \s and the rest

CharClass ClassOf(char32_t code_point);

// Walks a text in chunks that can be composed one by one: NFC(text) is the concatenation of NFC(chunk).
// Requires: valid UTF-8. Lifetime: the text outlives this.
class NfcChunks {
 public:
  explicit NfcChunks(std::string_view text) : text_(text) {}
  // The next chunk, as byte offsets; false at the end.
  bool Next();
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  // The chunk's NFC form is the chunk itself.
  bool inert() const { return inert_; }

 private:
  std::string_view text_;
  size_t begin_ = 0, end_ = 0;
  bool inert_ = false;
};

// Appends NFC(text) to `out`, in O(n log n) also for hostile runs of combining marks. Requires: valid UTF-8.
void AppendNfc(std::string_view text, std::string& out);

// The same for one chunk of NfcChunks that is not inert.
void AppendComposedChunk(std::string_view chunk, std::string& out);

}  // namespace minicpm
