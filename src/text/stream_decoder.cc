// StreamDecoder of tokenizer.h: keeps back the bytes of a character that is not complete yet.
#include <cstddef>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace minicpm {
namespace {

constexpr size_t kReserve = 4096;  // more than any token of the families: no allocation while decoding

// Appends `bytes` with invalid sequences replaced, without a temporary string.
void AppendValid(std::string_view bytes, std::string& out) {
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char c = DecodeUtf8(bytes, i);
    AppendUtf8(out, c.code_point);
    i += c.length;
  }
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {
  pending_.reserve(kReserve);
  out_.reserve(kReserve);
}

std::string_view StreamDecoder::Push(int32_t id) {
  out_.clear();
  if (skip_special_ && tokenizer_.IsSpecial(id)) return out_;
  pending_ += tokenizer_.Bytes(id);
  const size_t complete = pending_.size() - IncompleteUtf8Tail(pending_);
  AppendValid(std::string_view(pending_).substr(0, complete), out_);
  pending_.erase(0, complete);
  return out_;
}

std::string_view StreamDecoder::Finish() {
  out_.clear();
  AppendValid(pending_, out_);
  pending_.clear();
  return out_;
}

}  // namespace minicpm
