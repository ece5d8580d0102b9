// From what the files say (tokenizer_spec.h) to a tokenizer: ids checked, merges resolved, tables laid out.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/string_index.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace minicpm {
namespace {

std::unexpected<Error> Corrupt(std::string_view file, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, std::string(file) + ": " + what);
}

// Collects the tables of one tokenizer.
class Builder {
 public:
  explicit Builder(const TokenizerSpec& spec) : spec_(spec), index_(spec.vocab.size()) {}

  Status Run(Tokenizer::Impl& impl);

 private:
  Status IndexVocab();
  Result<std::array<int32_t, 256>> ByteIds() const;
  Result<std::vector<Bpe::Merge>> ResolveMerges() const;
  Status CheckAdded();
  void LayOutBytes(Tokenizer::Impl& impl) const;

  const TokenizerSpec& spec_;
  StringIndex index_;
  std::vector<std::string_view> entry_of_id_;  // base vocabulary; null data = no entry
  std::map<std::string, TokenizerSpec::Added> added_;
};

Status Builder::IndexVocab() {
  int32_t max_id = 0;
  for (const auto& entry : spec_.vocab) max_id = std::max(max_id, entry.id);
  entry_of_id_.resize(static_cast<size_t>(max_id) + 1);
  for (const auto& entry : spec_.vocab) {
    std::string_view& at_id = entry_of_id_[static_cast<size_t>(entry.id)];
    if (at_id.data() != nullptr) {
      return Corrupt(spec_.vocab_file, "the id " + std::to_string(entry.id) + " stands twice, for " + Quoted(at_id) +
                                           " and " + Quoted(entry.text));
    }
    at_id = entry.text;
    switch (index_.Add(entry.text, entry.id)) {
      case StringIndex::Added::kNew:
        break;
      case StringIndex::Added::kAlreadyThere:
        return Corrupt(spec_.vocab_file, "the vocabulary has " + Quoted(entry.text) + " twice");
      case StringIndex::Added::kTooManyCollisions:
        return Corrupt(spec_.vocab_file, "too many vocabulary entries have the same hash, at " + Quoted(entry.text));
    }
  }
  return {};
}

Result<std::array<int32_t, 256>> Builder::ByteIds() const {
  std::array<int32_t, 256> ids{};
  for (size_t b = 0; b < 256; ++b) {
    std::string entry;
    AppendUtf8(entry, ByteToChar(static_cast<uint8_t>(b)));
    ids[b] = index_.Find(entry);
    if (ids[b] < 0) {
      return Corrupt(spec_.vocab_file,
                     "the vocabulary has no entry for the byte " + std::to_string(b) + ", expected " + Quoted(entry));
    }
  }
  return ids;
}

Result<std::vector<Bpe::Merge>> Builder::ResolveMerges() const {
  std::vector<Bpe::Merge> merges;
  merges.reserve(spec_.merges.size());
  std::string joined;
  for (const auto& merge : spec_.merges) {
    joined.assign(merge.left).append(merge.right);
    const std::array<std::string_view, 3> texts = {merge.left, merge.right, joined};
    std::array<int32_t, 3> ids{};
    for (size_t i = 0; i < 3; ++i) {
      ids[i] = index_.Find(texts[i]);
      if (ids[i] < 0) {
        return Corrupt(spec_.merges_file, "merge " + std::to_string(merges.size()) + " (" + Quoted(merge.left) + " + " +
                                              Quoted(merge.right) + ") needs " + Quoted(texts[i]) +
                                              ", which is not in the vocabulary");
      }
    }
    merges.push_back({ids[0], ids[1], ids[2]});
  }
  return merges;
}

// Joins what several files say about the same token: the ids must agree, the later flags count (as in transformers).
Status Builder::CheckAdded() {
  std::map<int32_t, std::string_view> text_of_id;
  for (const auto& token : spec_.added) {
    if (!IsValidUtf8(token.text)) return Corrupt(token.file, "added token " + Quoted(token.text) + " is not UTF-8");
    const auto contradicts = [&](const std::string& found) {
      return Corrupt(token.file, "added token " + Quoted(token.text) + " has the id " + std::to_string(token.id) +
                                     ", but " + found);
    };
    const auto [it, is_new] = added_.try_emplace(token.text, token);
    if (!is_new && it->second.id != token.id) {
      return contradicts("it has " + std::to_string(it->second.id) + " in " + it->second.file);
    }
    it->second = token;
    const auto [by_id, id_is_new] = text_of_id.try_emplace(token.id, it->first);
    if (!id_is_new && by_id->second != token.text) return contradicts("so has " + Quoted(by_id->second));
    const int32_t base_id = index_.Find(token.text);
    if (base_id >= 0 && base_id != token.id)
      return contradicts("it has " + std::to_string(base_id) + " in the vocabulary");
    const auto at = static_cast<size_t>(token.id);
    if (at < entry_of_id_.size() && entry_of_id_[at].data() != nullptr && entry_of_id_[at] != token.text) {
      return contradicts("the vocabulary has " + Quoted(entry_of_id_[at]) + " there");
    }
  }
  if (added_.size() > kMaxAddedTokens) {
    return Corrupt(spec_.vocab_file, "there are more than " + std::to_string(kMaxAddedTokens) + " added tokens");
  }
  return {};
}

void Builder::LayOutBytes(Tokenizer::Impl& impl) const {
  std::map<int32_t, const TokenizerSpec::Added*> by_id;
  for (const auto& [text, token] : added_) by_id[token.id] = &token;
  size_t n_ids = entry_of_id_.size();
  if (!by_id.empty()) n_ids = std::max(n_ids, static_cast<size_t>(by_id.rbegin()->first) + 1);
  impl.offsets.reserve(n_ids + 1);
  impl.special.resize(n_ids);
  for (size_t id = 0; id < n_ids; ++id) {
    impl.offsets.push_back(static_cast<uint32_t>(impl.bytes.size()));
    if (const auto it = by_id.find(static_cast<int32_t>(id)); it != by_id.end()) {
      impl.bytes += it->second->text;
      impl.special[id] = it->second->special;
    } else if (id < entry_of_id_.size() && entry_of_id_[id].data() != nullptr) {
      impl.bytes += EntryToBytes(entry_of_id_[id]);
    }
  }
  impl.offsets.push_back(static_cast<uint32_t>(impl.bytes.size()));
}

Status Builder::Run(Tokenizer::Impl& impl) {
  MINICPM_TRY(IndexVocab());
  MINICPM_TRY(CheckAdded());
  MINICPM_ASSIGN(const auto byte_ids, ByteIds());
  MINICPM_ASSIGN(const auto merges, ResolveMerges());
  impl.nfc = spec_.nfc;
  impl.bpe = Bpe(byte_ids, merges, static_cast<int32_t>(entry_of_id_.size()));
  LayOutBytes(impl);
  std::vector<AddedTokenMatcher::Token> all;
  std::vector<AddedTokenMatcher::Token> raw;
  std::map<std::string, int32_t> normalized;
  for (const auto& [text, token] : added_) {
    all.push_back({text, token.id});
    if (token.normalized && spec_.nfc) {
      std::string form;
      AppendNfc(text, form);
      normalized.try_emplace(std::move(form), token.id);
    } else {
      raw.push_back({text, token.id});
    }
  }
  std::vector<AddedTokenMatcher::Token> in_nfc;
  for (const auto& [text, id] : normalized) in_nfc.push_back({text, id});
  impl.all_added = AddedTokenMatcher(std::move(all));
  impl.raw_added = AddedTokenMatcher(std::move(raw));
  impl.normalized_added = AddedTokenMatcher(std::move(in_nfc));
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer::Impl>> Tokenizer::Impl::Build(const TokenizerSpec& spec) {
  auto splitter = PreTokenizer::FromPattern(spec.pattern);
  if (!splitter) return Annotate("tokenizer.json", splitter.error());
  auto impl = std::make_unique<Impl>(std::move(*splitter));
  MINICPM_TRY(Builder(spec).Run(*impl));
  return impl;
}

}  // namespace minicpm
