// Implementation of tokenizer_spec.h: tokenizer.json, vocab.json + merges.txt, added_tokens.json,
// tokenizer_config.json. Shape of the files: the serialisation of the Hugging Face tokenizers library and of
// transformers' tokenizers.
#include "text/tokenizer_spec.h"

#include <simdjson.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "text/pre_tokenizer.h"

namespace minicpm {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kVocabJson = "vocab.json";
constexpr const char* kMergesTxt = "merges.txt";
constexpr const char* kAddedTokensJson = "added_tokens.json";
constexpr const char* kConfigJson = "tokenizer_config.json";

std::unexpected<Error> Corrupt(std::string_view file, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, std::string(file) + ": " + what);
}

std::unexpected<Error> Unsupported(std::string_view file, const std::string& what) {
  return Fail(ErrorCode::kUnsupported, std::string(file) + ": " + what);
}

// Parses a whole file whose top is an object; the document lives in `spec.storage`.
Result<object> ParseObject(TokenizerSpec& spec, const char* file, std::string_view bytes) {
  auto parser = std::make_shared<simdjson::dom::parser>();
  element top;
  if (const auto error = parser->parse(bytes.data(), bytes.size()).get(top)) {
    return Corrupt(file, std::string("not valid JSON (") + simdjson::error_message(error) + ")");
  }
  object result;
  if (top.get(result)) return Corrupt(file, "expected a JSON object at the top");
  spec.storage.push_back(std::move(parser));
  return result;
}

// The value of `key`, or nothing when it is missing or null.
std::optional<element> Get(object from, std::string_view key) {
  element value;
  if (from[key].get(value) || value.is_null()) return std::nullopt;
  return value;
}

Result<int32_t> TokenId(const char* file, std::string_view text, element value) {
  int64_t id = 0;
  if (value.get(id) || id < 0 || id > kMaxTokenId) {
    return Corrupt(file, "the id of " + Quoted(text) + " is not an integer in 0.." + std::to_string(kMaxTokenId));
  }
  return static_cast<int32_t>(id);
}

Result<bool> Flag(const char* file, object from, const std::string& where, std::string_view key, bool if_missing) {
  const auto value = Get(from, key);
  if (!value) return if_missing;
  bool result = false;
  if (value->get(result)) return Corrupt(file, where + ": '" + std::string(key) + "' is neither true nor false");
  return result;
}

Status ReadVocab(TokenizerSpec& spec, const char* file, object vocab) {
  spec.vocab_file = file;
  for (const auto [key, value] : vocab) {
    if (spec.vocab.size() >= kMaxVocabEntries || key.size() > kMaxEntryBytes) {
      return Corrupt(file, "the vocabulary has too many entries or one that is too long, at " + Quoted(key));
    }
    MINICPM_ASSIGN(const int32_t id, TokenId(file, key, value));
    spec.vocab.push_back({key, id});
  }
  if (spec.vocab.empty()) return Corrupt(file, "the vocabulary is empty");
  return {};
}

std::optional<TokenizerSpec::Merge> SplitMerge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) return std::nullopt;
  if (line.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return TokenizerSpec::Merge{line.substr(0, space), line.substr(space + 1)};
}

// "a b" or ["a", "b"].
std::optional<TokenizerSpec::Merge> ReadMerge(element value) {
  std::string_view line;
  if (!value.get(line)) return SplitMerge(line);
  array pair;
  TokenizerSpec::Merge merge;
  if (value.get(pair) || pair.size() != 2 || pair.at(0).get(merge.left) || pair.at(1).get(merge.right))
    return std::nullopt;
  if (merge.left.empty() || merge.right.empty()) return std::nullopt;
  return merge;
}

Status ReadMerges(TokenizerSpec& spec, const char* file, element value) {
  spec.merges_file = file;
  array merges;
  if (value.get(merges)) return Corrupt(file, "model.merges is not an array");
  for (const element item : merges) {
    const auto merge = ReadMerge(item);
    if (!merge || spec.merges.size() >= kMaxVocabEntries) {
      return Corrupt(file, "merge " + std::to_string(spec.merges.size()) +
                               " is not two non-empty strings, or there are too many merges");
    }
    spec.merges.push_back(*merge);
  }
  return {};
}

Status ReadMergesTxt(TokenizerSpec& spec, std::string_view bytes) {
  spec.merges_file = kMergesTxt;
  size_t line_number = 0;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const auto merge = SplitMerge(line);
    if (!merge || spec.merges.size() >= kMaxVocabEntries) {
      return Corrupt(kMergesTxt, "line " + std::to_string(line_number) + " " + Quoted(line) +
                                     " is not two entries with a space between, or there are too many lines");
    }
    spec.merges.push_back(*merge);
  }
  return {};
}

Status AddToken(TokenizerSpec& spec, const char* file, TokenizerSpec::Added token) {
  if (token.text.empty() || token.text.size() > kMaxAddedTokenBytes) {
    return Corrupt(file, "added token " + Quoted(token.text) + " is empty or longer than " +
                             std::to_string(kMaxAddedTokenBytes) + " bytes");
  }
  if (spec.added.size() >= 2 * kMaxAddedTokens) return Corrupt(file, "too many added tokens");
  spec.added.push_back(std::move(token));
  return {};
}

std::unexpected<Error> StripFlag(const char* file, const std::string& where, std::string_view text, const char* flag) {
  return Unsupported(file, where + " " + Quoted(text) + " asks for '" + flag + "', which is not supported");
}

// One object with "content" and the flags of an added token.
Status ReadAddedToken(TokenizerSpec& spec, const char* file, object token, int32_t id) {
  std::string_view text;
  const std::string where = "added token " + std::to_string(id);
  if (token["content"].get(text)) return Corrupt(file, where + " has no string 'content'");
  for (const char* key : {"lstrip", "rstrip", "single_word"}) {
    MINICPM_ASSIGN(const bool on, Flag(file, token, where, key, false));
    if (on) return StripFlag(file, where, text, key);
  }
  MINICPM_ASSIGN(const bool special, Flag(file, token, where, "special", false));
  MINICPM_ASSIGN(const bool normalized, Flag(file, token, where, "normalized", !special));
  return AddToken(spec, file, {std::string(text), id, special, normalized, file});
}

// --- tokenizer.json ---

Status ReadNormalizer(TokenizerSpec& spec, object root) {
  const auto value = Get(root, "normalizer");
  spec.nfc = value.has_value();
  if (!value) return {};
  std::string_view type;
  object normalizer;
  if (value->get(normalizer) || normalizer["type"].get(type) || type != "NFC") {
    return Unsupported(kTokenizerJson, "the normalizer is " + Quoted(type) + ", expected NFC or none");
  }
  return {};
}

// A "ByteLevel" step that only maps bytes to characters.
bool IsPlainByteLevel(object step) {
  std::string_view type;
  if (step["type"].get(type) || type != "ByteLevel") return false;
  bool prefix_space = true;
  bool use_regex = true;
  return !step["add_prefix_space"].get(prefix_space) && !prefix_space && !step["use_regex"].get(use_regex) &&
         !use_regex;
}

Status ReadPreTokenizer(TokenizerSpec& spec, object root) {
  const auto fail = [](const std::string& what) {
    return Unsupported(kTokenizerJson, "pre_tokenizer: " + what +
                                           ", expected a Sequence of a Split by a Regex (Isolated) and a ByteLevel "
                                           "without prefix space and regex");
  };
  const auto value = Get(root, "pre_tokenizer");
  object sequence;
  array steps;
  std::string_view type;
  if (!value || value->get(sequence) || sequence["type"].get(type)) return fail("it has no type");
  if (type != "Sequence" || sequence["pretokenizers"].get(steps) || steps.size() != 2)
    return fail("found " + Quoted(type));
  object split;
  object bytes;
  if (steps.at(0).get(split) || steps.at(1).get(bytes)) return fail("a step is not an object");
  std::string_view split_type;
  std::string_view behavior;
  std::string_view pattern;
  if (split["type"].get(split_type) || split_type != "Split") return fail("the first step is not Split");
  if (split["behavior"].get(behavior) || behavior != "Isolated")
    return fail("the Split's behaviour is " + Quoted(behavior));
  MINICPM_ASSIGN(const bool invert, Flag(kTokenizerJson, split, "pre_tokenizer", "invert", false));
  if (invert) return fail("the Split is inverted");
  object pattern_object;
  if (split["pattern"].get(pattern_object) || pattern_object["Regex"].get(pattern))
    return fail("the Split has no Regex");
  if (!IsPlainByteLevel(bytes)) return fail("the second step is another");
  spec.pattern = pattern;
  return {};
}

// Sections that must be absent or plain ByteLevel, because anything else would add or change tokens.
Status CheckByteLevel(object root, const std::string& key) {
  const auto value = Get(root, key);
  if (!value) return {};
  object section;
  std::string_view type;
  if (value->get(section) || section["type"].get(type) || type != "ByteLevel") {
    return Unsupported(kTokenizerJson, key + " is " + Quoted(type) + ", expected ByteLevel or none");
  }
  return {};
}

Status CheckModelOptions(object model) {
  std::string_view type = "BPE";
  if (const auto value = Get(model, "type"); value && (value->get(type) || type != "BPE")) {
    return Unsupported(kTokenizerJson, "model.type is " + Quoted(type) + ", expected BPE");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string_view text;
    if (const auto value = Get(model, key); value && (value->get(text) || !text.empty())) {
      return Unsupported(kTokenizerJson, std::string("model.") + key + " is set, expected none");
    }
  }
  for (const char* key : {"byte_fallback", "ignore_merges"}) {
    MINICPM_ASSIGN(const bool on, Flag(kTokenizerJson, model, "model", key, false));
    if (on) return Unsupported(kTokenizerJson, std::string("model.") + key + " is true, expected false");
  }
  double dropout = 0;
  if (const auto value = Get(model, "dropout"); value && (value->get(dropout) || dropout != 0)) {
    return Unsupported(kTokenizerJson, "model.dropout is set, expected none");
  }
  return {};
}

Status ReadTokenizerJson(TokenizerSpec& spec, std::string_view bytes) {
  MINICPM_ASSIGN(const object root, ParseObject(spec, kTokenizerJson, bytes));
  MINICPM_TRY(ReadNormalizer(spec, root));
  MINICPM_TRY(ReadPreTokenizer(spec, root));
  MINICPM_TRY(CheckByteLevel(root, "post_processor"));
  MINICPM_TRY(CheckByteLevel(root, "decoder"));
  object model;
  object vocab;
  if (root["model"].get(model)) return Corrupt(kTokenizerJson, "'model' is missing or not an object");
  MINICPM_TRY(CheckModelOptions(model));
  if (model["vocab"].get(vocab)) return Corrupt(kTokenizerJson, "'model.vocab' is missing or not an object");
  MINICPM_TRY(ReadVocab(spec, kTokenizerJson, vocab));
  const auto merges = Get(model, "merges");
  if (!merges) return Corrupt(kTokenizerJson, "'model.merges' is missing");
  MINICPM_TRY(ReadMerges(spec, kTokenizerJson, *merges));

  const auto added = Get(root, "added_tokens");
  if (!added) return {};
  array tokens;
  if (added->get(tokens)) return Corrupt(kTokenizerJson, "'added_tokens' is not an array");
  for (const element item : tokens) {
    object token;
    element id_value;
    if (item.get(token) || token["id"].get(id_value)) return Corrupt(kTokenizerJson, "an added token has no 'id'");
    MINICPM_ASSIGN(const int32_t id, TokenId(kTokenizerJson, "an added token", id_value));
    MINICPM_TRY(ReadAddedToken(spec, kTokenizerJson, token, id));
  }
  return {};
}

// --- tokenizer_config.json and added_tokens.json ---
// The former goes through the other JSON library, because it holds integers of any size (model_max_length is 10^30).

using Json = nlohmann::json;

Result<int32_t> ParseIdKey(std::string_view key) {
  int64_t id = 0;
  const bool digits =
      !key.empty() && key.size() <= 9 && std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
  if (digits) {
    for (const char c : key) id = id * 10 + (c - '0');
  }
  if (!digits || id > kMaxTokenId) {
    return Corrupt(kConfigJson, "added_tokens_decoder has the key " + Quoted(key) + ", expected an id in 0.." +
                                    std::to_string(kMaxTokenId));
  }
  return static_cast<int32_t>(id);
}

// The text of a token that is written as a string or as an object with "content"; null when it is neither.
const std::string* TokenText(const Json& value) {
  if (value.is_string()) return value.get_ptr<const std::string*>();
  if (!value.is_object()) return nullptr;
  const auto content = value.find("content");
  return content == value.end() ? nullptr : content->get_ptr<const std::string*>();
}

// Texts that the config names in a role (eos_token, additional_special_tokens, ...).
std::set<std::string, std::less<>> NamedSpecial(const Json& config) {
  std::set<std::string, std::less<>> names;
  const auto keep = [&](const Json& value) {
    if (const std::string* text = TokenText(value)) names.insert(*text);
  };
  for (const auto& [key, value] : config.items()) {
    if (key == "additional_special_tokens" && value.is_array()) {
      for (const Json& item : value) keep(item);
    } else if (key.ends_with("_token")) {
      keep(value);
    }
  }
  return names;
}

Result<bool> ConfigFlag(const Json& token, const std::string& where, const char* key, bool if_missing) {
  const auto it = token.find(key);
  if (it == token.end() || it->is_null()) return if_missing;
  if (!it->is_boolean()) return Corrupt(kConfigJson, where + ": '" + key + "' is neither true nor false");
  return it->get<bool>();
}

Status ReadDecoderEntry(TokenizerSpec& spec, const std::string& key, const Json& token) {
  MINICPM_ASSIGN(const int32_t id, ParseIdKey(key));
  const std::string where = "added token " + key;
  const std::string* text = token.is_object() ? TokenText(token) : nullptr;
  if (text == nullptr) return Corrupt(kConfigJson, where + " has no string 'content'");
  for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
    MINICPM_ASSIGN(const bool on, ConfigFlag(token, where, flag, false));
    if (on) return StripFlag(kConfigJson, where, *text, flag);
  }
  MINICPM_ASSIGN(const bool special, ConfigFlag(token, where, "special", false));
  MINICPM_ASSIGN(const bool normalized, ConfigFlag(token, where, "normalized", !special));
  return AddToken(spec, kConfigJson, {*text, id, special, normalized, kConfigJson});
}

// Returns the texts that the config calls special without describing them in added_tokens_decoder.
Result<std::set<std::string, std::less<>>> ReadConfig(TokenizerSpec& spec, const std::string& bytes) {
  if (bytes.size() > kMaxConfigBytes) {
    return Corrupt(kConfigJson, "it has " + std::to_string(bytes.size()) + " bytes, expected at most " +
                                    std::to_string(kMaxConfigBytes));
  }
  const Json config = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (config.is_discarded()) return Corrupt(kConfigJson, "not valid JSON");
  if (!config.is_object()) return Corrupt(kConfigJson, "expected a JSON object at the top");
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder != config.end() && !decoder->is_null()) {
    if (!decoder->is_object()) return Corrupt(kConfigJson, "'added_tokens_decoder' is not an object");
    for (const auto& [key, token] : decoder->items()) MINICPM_TRY(ReadDecoderEntry(spec, key, token));
  }
  return NamedSpecial(config);
}

Status ReadAddedFiles(TokenizerSpec& spec, const TokenizerFiles& files) {
  std::set<std::string, std::less<>> special;
  const size_t before = spec.added.size();
  if (files.tokenizer_config_json) {
    MINICPM_ASSIGN(special, ReadConfig(spec, *files.tokenizer_config_json));
  }
  // With a tokenizer.json the plain list of names adds nothing; without one it adds what is not described above.
  if (files.tokenizer_json || !files.added_tokens_json) return {};
  std::set<std::string, std::less<>> described;
  for (size_t i = before; i < spec.added.size(); ++i) described.insert(spec.added[i].text);
  MINICPM_ASSIGN(const object tokens, ParseObject(spec, kAddedTokensJson, *files.added_tokens_json));
  for (const auto [key, value] : tokens) {
    MINICPM_ASSIGN(const int32_t id, TokenId(kAddedTokensJson, key, value));
    if (described.contains(key)) continue;
    const bool is_special = special.contains(key);
    MINICPM_TRY(AddToken(spec, kAddedTokensJson, {std::string(key), id, is_special, !is_special, kAddedTokensJson}));
  }
  return {};
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  quoted += Printable(text, 60);
  quoted += '\'';
  return quoted;
}

Result<TokenizerSpec> ReadTokenizerSpec(const TokenizerFiles& files) {
  TokenizerSpec spec;
  if (files.tokenizer_json) {
    MINICPM_TRY(ReadTokenizerJson(spec, *files.tokenizer_json));
  } else if (files.vocab_json && files.merges_txt) {
    MINICPM_ASSIGN(const object vocab, ParseObject(spec, kVocabJson, *files.vocab_json));
    MINICPM_TRY(ReadVocab(spec, kVocabJson, vocab));
    MINICPM_TRY(ReadMergesTxt(spec, *files.merges_txt));
    spec.pattern = kQwen2Pattern;
  } else {
    return Fail(ErrorCode::kNotFound, "found neither tokenizer.json nor vocab.json with merges.txt");
  }
  MINICPM_TRY(ReadAddedFiles(spec, files));
  return spec;
}

}  // namespace minicpm
