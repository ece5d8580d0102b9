// Implementation of synthetic_tokenizer.h. Added tokens: added_tokens.json and tokenizer_config.json of the official
// checkpoints. Merges: words that grow from frequent letters, and three-byte characters and pairs of them.
#include "convert/synthetic_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/utf8.h"
#include "convert/random_bits.h"

namespace minicpm {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBytes = 256;
constexpr const char* kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct AddedToken {
  std::string text;
  bool special = true;
};

void AddPair(std::vector<AddedToken>& tokens, const std::string& name) {
  tokens.push_back({"<" + name + ">"});
  tokens.push_back({"</" + name + ">"});
}

void AddBars(std::vector<AddedToken>& tokens, std::initializer_list<const char*> names, bool special = true) {
  for (const char* name : names) tokens.push_back({std::string("<|") + name + "|>", special});
}

// What o 4.5 adds behind the tokens that it shares with V 4.5.
void AddOmni(std::vector<AddedToken>& tokens) {
  for (const char* name : {"answer", "focus", "line", "perception", "source_image", "image_save_to"}) {
    AddPair(tokens, name);
  }
  AddBars(tokens,
          {"audio_start", "audio",       "audio_end",     "spk_bos",       "spk",       "spk_eos",  "tts_bos",
           "tts_eos",     "listen",      "speak",         "interrupt",     "vad_start", "vad_end",  "emotion_start",
           "emotion_end", "speed_start", "speed_end",     "pitch_start",   "pitch_end", "turn_bos", "turn_eos",
           "chunk_eos",   "chunk_bos",   "chunk_tts_bos", "chunk_tts_eos", "tts_pad"});
  for (int i = 7; i <= 31; ++i) tokens.push_back({"<|timbre_" + std::to_string(i) + "|>"});
}

std::vector<AddedToken> AddedTokensOf(Family family) {
  std::vector<AddedToken> tokens;
  AddBars(tokens, {"endoftext", "im_start", "im_end"});
  if (family == Family::kMiniCpmV26) {
    for (const char* name : {"image", "ref", "box", "quad", "point", "slice", "image_id"}) AddPair(tokens, name);
    for (int i = 0; i < 6; ++i) tokens.push_back({"<|reserved_special_token_" + std::to_string(i) + "|>"});
    return tokens;
  }
  AddBars(tokens, {"object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start", "quad_end",
                   "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad"});
  tokens.push_back({"<tool_call>", false});
  tokens.push_back({"</tool_call>", false});
  AddBars(tokens, {"fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep"}, false);
  for (const char* text : {"<tool_response>", "</tool_response>", "<think>", "</think>"})
    tokens.push_back({text, false});
  for (const char* name : {"image", "ref", "box", "quad", "point", "slice", "image_id", "unit"}) AddPair(tokens, name);
  if (family == Family::kMiniCpmO45) {
    AddOmni(tokens);
  } else {
    for (int i = 0; i < 63; ++i) tokens.push_back({"<|reserved_" + std::to_string(i) + "|>"});
  }
  return tokens;
}

// Where the official vocabulary has "<unk>", or the last entry of a smaller one.
int64_t UnkId(int64_t n_base) { return std::min<int64_t>(128244, n_base - 1); }

// How byte-level vocabularies write each byte, in the order of its id.
std::vector<std::string> ByteTexts() {
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  std::vector<std::string> texts;
  for (int b = 0; b < kBytes; ++b) {
    if (printable(b)) AppendUtf8(texts.emplace_back(), static_cast<char32_t>(b));
  }
  for (char32_t c = 256; texts.size() < kBytes; ++c) AppendUtf8(texts.emplace_back(), c);
  return texts;
}

// The character that stands for byte b.
std::string ByteText(int b) {
  std::string text;
  if ((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174) {
    AppendUtf8(text, static_cast<char32_t>(b));
  } else {
    // 0..32 follow 256 in order, then 127..160, then 173.
    AppendUtf8(text, static_cast<char32_t>(256 + (b <= 32 ? b : b == 173 ? 67 : b - 127 + 33)));
  }
  return text;
}

// Grows a vocabulary by merging what is there already.
class Merger {
 public:
  explicit Merger(uint64_t seed) : key_(RandomKey(seed, "tokenizer")) {
    for (const char c : std::string_view("etaoinshrdlucmfwypvbgkjqxz")) words_.emplace_back(1, c);
    for (int b = 0xe4; b <= 0xe9; ++b) {
      for (int second = 0x80; second < 0xc0; ++second) heads_.push_back({ByteText(b), ByteText(second)});
    }
    for (int b = 0x80; b < 0xc0; ++b) tails_.push_back(ByteText(b));
  }

  // A new entry; its two halves in `left` and `right`.
  std::string Next(std::string& left, std::string& right) {
    while (true) {
      Propose(left, right);
      std::string joined = left + right;
      if (joined.size() <= 24 && taken_.insert(joined).second) {
        Remember(joined);
        return joined;
      }
    }
  }

 private:
  enum class Kind { kWord, kSpaced, kHead, kCharacter, kPair };

  // Low indices more often: frequent pieces are short ones.
  size_t Pick(size_t n) {
    const double u = static_cast<double>(RandomBits(key_, counter_++) >> 11) * 0x1p-53;
    return static_cast<size_t>(u * u * static_cast<double>(n));
  }

  void Propose(std::string& left, std::string& right) {
    if (next_head_ < heads_.size() && n_ % 2 == 1) {
      kind_ = Kind::kHead;
      left = heads_[next_head_].first;
      right = heads_[next_head_++].second;
      return;
    }
    switch (RandomBits(key_, counter_++) % 8) {
      case 0:
        kind_ = Kind::kCharacter;
        if (ready_heads_.empty()) break;
        left = ready_heads_[RandomBits(key_, counter_++) % ready_heads_.size()];
        right = tails_[RandomBits(key_, counter_++) % tails_.size()];
        return;
      case 1:
        kind_ = Kind::kPair;
        if (characters_.size() < 2) break;
        left = characters_[Pick(characters_.size())];
        right = characters_[Pick(characters_.size())];
        return;
      case 2:
      case 3:
      case 4:
        kind_ = Kind::kSpaced;
        left = spaced_.empty() || n_ % 4 == 0 ? ByteText(' ') : spaced_[Pick(spaced_.size())];
        right = words_[Pick(words_.size())];
        return;
      default:
        break;
    }
    kind_ = Kind::kWord;
    left = words_[Pick(words_.size())];
    right = words_[Pick(words_.size())];
  }

  void Remember(const std::string& joined) {
    ++n_;
    switch (kind_) {
      case Kind::kWord:
        words_.push_back(joined);
        break;
      case Kind::kSpaced:
        spaced_.push_back(joined);
        break;
      case Kind::kHead:
        ready_heads_.push_back(joined);
        break;
      case Kind::kCharacter:
        characters_.push_back(joined);
        break;
      case Kind::kPair:
        break;
    }
  }

  uint64_t key_;
  uint64_t counter_ = 0;
  size_t n_ = 0;
  Kind kind_ = Kind::kWord;
  std::vector<std::string> words_, spaced_, ready_heads_, characters_, tails_;
  std::vector<std::pair<std::string, std::string>> heads_;
  size_t next_head_ = 0;
  std::unordered_set<std::string> taken_;
};

struct Vocabulary {
  std::vector<std::string> entries;
  std::vector<std::pair<std::string, std::string>> merges;
};

Vocabulary MakeVocabulary(int64_t n_base, uint64_t seed) {
  Vocabulary v;
  v.entries = ByteTexts();
  Merger merger(seed);
  while (static_cast<int64_t>(v.entries.size()) < n_base) {
    if (static_cast<int64_t>(v.entries.size()) == UnkId(n_base)) {
      v.entries.emplace_back("<unk>");
      continue;
    }
    auto& [left, right] = v.merges.emplace_back();
    v.entries.push_back(merger.Next(left, right));
  }
  return v;
}

Json AddedJson(const std::string& text, bool special) {
  return {{"content", text}, {"lstrip", false},      {"normalized", false},
          {"rstrip", false}, {"single_word", false}, {"special", special}};
}

std::string VocabText(const Vocabulary& v) {
  std::string text = "{";
  for (size_t i = 0; i < v.entries.size(); ++i) {
    if (i > 0) text += ", ";
    text += Json(v.entries[i]).dump() + ": " + std::to_string(i);
  }
  return text + "}";
}

std::string ConfigText(const std::vector<AddedToken>& added, int64_t n_base) {
  Json decoder = Json::object();
  decoder[std::to_string(UnkId(n_base))] = AddedJson("<unk>", true);
  Json named = Json::array({"<unk>"});
  for (size_t i = 0; i < added.size(); ++i) {
    decoder[std::to_string(n_base + static_cast<int64_t>(i))] = AddedJson(added[i].text, added[i].special);
    if (added[i].special) named.push_back(added[i].text);
  }
  return Json{{"add_bos_token", false},
              {"add_prefix_space", false},
              {"added_tokens_decoder", decoder},
              {"additional_special_tokens", named},
              {"bos_token", "<|im_start|>"},
              {"clean_up_tokenization_spaces", false},
              {"eos_token", "<|im_end|>"},
              {"errors", "replace"},
              {"pad_token", "<|endoftext|>"},
              {"split_special_tokens", false},
              {"tokenizer_class", "MiniCPMVTokenizerFast"},
              {"unk_token", "<unk>"}}
             .dump(2) +
         "\n";
}

std::string TokenizerJsonText(const Vocabulary& v, const std::vector<AddedToken>& added, int64_t n_base) {
  Json tokens = Json::array();
  const auto add = [&](int64_t id, const std::string& text, bool special) {
    Json token = {{"id", id}};
    token.update(AddedJson(text, special));
    tokens.push_back(std::move(token));
  };
  add(UnkId(n_base), "<unk>", true);
  for (size_t i = 0; i < added.size(); ++i) add(n_base + static_cast<int64_t>(i), added[i].text, added[i].special);
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json steps = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
  std::string text = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": " +
                     tokens.dump() + ",\n  \"normalizer\": {\"type\": \"NFC\"},\n  \"pre_tokenizer\": " + steps.dump() +
                     ",\n  \"post_processor\": " + bytes.dump() + ",\n  \"decoder\": " + bytes.dump() +
                     ",\n  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                     "\"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": \"\", \"fuse_unk\": false, "
                     "\"byte_fallback\": false, \"ignore_merges\": false,\n  \"vocab\": " +
                     VocabText(v) + ",\n  \"merges\": [";
  for (size_t i = 0; i < v.merges.size(); ++i) {
    text += (i > 0 ? ", [" : "[") + Json(v.merges[i].first).dump() + ", " + Json(v.merges[i].second).dump() + "]";
  }
  return text + "]}\n}\n";
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> SyntheticTokenizerFiles(Family family, int64_t n_vocab,
                                                                                 uint64_t seed) {
  const std::vector<AddedToken> added = AddedTokensOf(family);
  const int64_t n_base = n_vocab - static_cast<int64_t>(added.size());
  if (n_base <= kBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a synthetic model of this family needs a vocab_size of at least " +
                                                 std::to_string(kBytes + 1 + static_cast<int64_t>(added.size())) +
                                                 ", but has " + std::to_string(n_vocab));
  }
  const Vocabulary v = MakeVocabulary(n_base, seed);
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : v.merges) merges += left + " " + right + "\n";
  Json ids = Json::object();
  for (size_t i = 0; i < added.size(); ++i) ids[added[i].text] = n_base + static_cast<int64_t>(i);
  std::vector<std::pair<std::string, std::string>> files = {{"vocab.json", VocabText(v) + "\n"},
                                                            {"merges.txt", std::move(merges)},
                                                            {"added_tokens.json", ids.dump(2) + "\n"},
                                                            {"tokenizer_config.json", ConfigText(added, n_base)}};
  if (family == Family::kMiniCpmV45) files.emplace_back("tokenizer.json", TokenizerJsonText(v, added, n_base));
  return files;
}

int64_t SyntheticTokenId(Family family, int64_t n_vocab, const std::string& text) {
  const std::vector<AddedToken> added = AddedTokensOf(family);
  for (size_t i = 0; i < added.size(); ++i) {
    if (added[i].text == text) return n_vocab - static_cast<int64_t>(added.size() - i);
  }
  return -1;
}

}  // namespace minicpm
