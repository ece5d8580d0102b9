// Implementation of tokenizer.h: loading, encoding (added tokens, NFC, pre-tokenizer, BPE in this order) and decoding.
#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "text/read_file.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace minicpm {
namespace {

constexpr size_t kMaxFileBytes = size_t{128} << 20;

struct ByteRange {
  size_t begin, end;
};

// A text and where in it added tokens may be recognised (sorted, apart from each other).
struct Marked {
  std::string text;
  std::vector<ByteRange> trusted;

  void MarkTrusted(size_t begin, size_t end) {
    if (begin == end) return;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = end;
    } else {
      trusted.push_back({begin, end});
    }
  }
};

// Replaces invalid UTF-8. A character that a seam cuts in two belongs to the stretch in which it begins, and the
// replacement is never trusted text of the template's own.
Marked Repair(const Marked& in) {
  Marked out;
  size_t range = 0;
  for (size_t i = 0; i < in.text.size();) {
    const Utf8Char c = DecodeUtf8(in.text, i);
    const size_t begin = out.text.size();
    AppendUtf8(out.text, c.code_point);
    while (range < in.trusted.size() && in.trusted[range].end <= i) ++range;
    const bool inside =
        range < in.trusted.size() && in.trusted[range].begin <= i && i + c.length <= in.trusted[range].end;
    if (inside && c.valid) out.MarkTrusted(begin, out.text.size());
    i += c.length;
  }
  return out;
}

Marked Join(std::span<const TextPiece> pieces) {
  Marked joined;
  size_t size = 0;
  for (const TextPiece& piece : pieces) size += piece.text.size();
  joined.text.reserve(size);
  for (const TextPiece& piece : pieces) {
    const size_t begin = joined.text.size();
    joined.text += piece.text;
    if (piece.trusted) joined.MarkTrusted(begin, joined.text.size());
  }
  return IsValidUtf8(joined.text) ? std::move(joined) : Repair(joined);
}

// The trusted ranges of `all`, as seen from inside [begin, end).
std::vector<ByteRange> Inside(const std::vector<ByteRange>& all, size_t begin, size_t end) {
  std::vector<ByteRange> result;
  for (auto it = std::ranges::upper_bound(all, begin, {}, &ByteRange::end); it != all.end() && it->begin < end; ++it) {
    result.push_back({std::max(it->begin, begin) - begin, std::min(it->end, end) - begin});
  }
  return result;
}

// NFC of a stretch, with the marks carried over: a composed chunk is trusted when all it was made of is.
Marked Compose(std::string_view text, const std::vector<ByteRange>& trusted) {
  Marked out;
  size_t range = 0;
  for (NfcChunks chunks(text); chunks.Next();) {
    const size_t begin = out.text.size();
    const std::string_view chunk = text.substr(chunks.begin(), chunks.end() - chunks.begin());
    if (chunks.inert()) {
      out.text += chunk;
    } else {
      AppendComposedChunk(chunk, out.text);
    }
    while (range < trusted.size() && trusted[range].end <= chunks.begin()) ++range;
    if (range < trusted.size() && trusted[range].begin <= chunks.begin() && chunks.end() <= trusted[range].end) {
      out.MarkTrusted(begin, out.text.size());
    }
  }
  return out;
}

class Encoder {
 public:
  Encoder(const Tokenizer::Impl& impl, std::vector<int32_t>& out) : impl_(impl), out_(out) {}

  void Run(const Marked& in) {
    ForEachStretch(in.text, in.trusted, impl_.raw_added, [&](size_t begin, size_t end) {
      const std::string_view stretch = std::string_view(in.text).substr(begin, end - begin);
      if (!impl_.nfc) {
        Words(stretch);
      } else if (impl_.normalized_added.empty()) {
        std::string composed;
        AppendNfc(stretch, composed);
        Words(composed);
      } else {
        const Marked composed = Compose(stretch, Inside(in.trusted, begin, end));
        ForEachStretch(composed.text, composed.trusted, impl_.normalized_added,
                       [&](size_t b, size_t e) { Words(std::string_view(composed.text).substr(b, e - b)); });
      }
    });
  }

 private:
  // Puts out the ids of the added tokens and calls `plain` for the stretches between them, in order.
  template <class Plain>
  void ForEachStretch(std::string_view text, const std::vector<ByteRange>& trusted, const AddedTokenMatcher& added,
                      Plain plain) {
    size_t done = 0;
    for (const ByteRange& range : trusted) {
      for (size_t pos = range.begin; !added.empty();) {
        const AddedTokenMatcher::Match match = added.Find(text, pos, range.end);
        if (match.id < 0) break;
        if (match.begin > done) plain(done, match.begin);
        out_.push_back(match.id);
        done = pos = match.end;
      }
    }
    if (done < text.size()) plain(done, text.size());
  }

  void Words(std::string_view text) {
    impl_.pre_tokenizer.Split(text, [&](std::string_view word) { impl_.bpe.Encode(word, scratch_, out_); });
  }

  const Tokenizer::Impl& impl_;
  std::vector<int32_t>& out_;
  Bpe::Scratch scratch_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::Load(const std::string& folder) {
  TokenizerFiles files;
  const auto read = [&](const char* name, std::optional<std::string>& into) -> Status {
    MINICPM_ASSIGN(into, ReadTextFile(folder + "/" + name, kMaxFileBytes));
    return {};
  };
  MINICPM_TRY(read("tokenizer.json", files.tokenizer_json));
  if (!files.tokenizer_json) {
    MINICPM_TRY(read("vocab.json", files.vocab_json));
    MINICPM_TRY(read("merges.txt", files.merges_txt));
    MINICPM_TRY(read("added_tokens.json", files.added_tokens_json));
  }
  MINICPM_TRY(read("tokenizer_config.json", files.tokenizer_config_json));
  auto tokenizer = FromFiles(files);
  if (!tokenizer) return Annotate(Printable(folder), std::move(tokenizer).error());
  return tokenizer;
}

Result<Tokenizer> Tokenizer::FromFiles(const TokenizerFiles& files) {
  MINICPM_ASSIGN(const TokenizerSpec spec, ReadTokenizerSpec(files));
  MINICPM_ASSIGN(auto impl, Impl::Build(spec));
  return Tokenizer(std::move(impl));
}

std::vector<int32_t> Tokenizer::Encode(std::span<const TextPiece> pieces) const {
  const Marked joined = Join(pieces);
  MINICPM_CHECK(joined.text.size() < (size_t{1} << 31));
  std::vector<int32_t> ids;
  ids.reserve(joined.text.size() / 3 + 8);
  Encoder(*impl_, ids).Run(joined);
  return ids;
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool allow_special) const {
  const TextPiece piece{text, allow_special};
  return Encode(std::span<const TextPiece>(&piece, 1));
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (!(skip_special && IsSpecial(id))) text += Bytes(id);
  }
  return text;
}

std::string_view Tokenizer::Bytes(int32_t id) const {
  if (id < 0 || id >= impl_->n_ids()) return {};
  const auto at = static_cast<size_t>(id);
  return std::string_view(impl_->bytes).substr(impl_->offsets[at], impl_->offsets[at + 1] - impl_->offsets[at]);
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < impl_->n_ids() && impl_->special[static_cast<size_t>(id)];
}

int32_t Tokenizer::AddedTokenId(std::string_view text) const { return impl_->all_added.Id(text); }

int32_t Tokenizer::vocab_size() const { return impl_->n_ids(); }

}  // namespace minicpm
