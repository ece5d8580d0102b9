// libFuzzer target: tokenizer files, a text to encode, a split pattern. Nothing may crash, hang or lose text.
// Input: one digit for the kind, then the parts with a zero byte between them:
//   0 tokenizer.json, text    1 vocab.json, merges.txt, added_tokens.json, tokenizer_config.json, text
//   2 text, cut into pieces at zero bytes, on a fixed small tokenizer    3 pattern, text
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/regex_splitter.h"
#include "text/tokenizer.h"

namespace minicpm {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::string_view> Parts(std::string_view input, size_t max_parts) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < max_parts) {
    const size_t end = input.find('\0');
    if (end == std::string_view::npos) break;
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end + 1);
  }
  parts.push_back(input);
  return parts;
}

void Use(const Tokenizer& tokenizer, const std::vector<TextPiece>& pieces) {
  const std::vector<int32_t> ids = tokenizer.Encode(pieces);
  StreamDecoder decoder(tokenizer, false);
  std::string streamed;
  for (const int32_t id : ids) {
    Require(id >= 0 && id < tokenizer.vocab_size());
    streamed += decoder.Push(id);
  }
  streamed += decoder.Finish();
  Require(IsValidUtf8(streamed));
  Require(streamed == ReplaceInvalidUtf8(tokenizer.Decode(ids, false)));
}

void UseFiles(const TokenizerFiles& files, std::string_view text) {
  if (const auto tokenizer = Tokenizer::FromFiles(files)) Use(*tokenizer, {{text, true}, {text, false}});
}

TokenizerFiles SmallFiles() {
  TokenizerFiles files;
  std::string vocab = "{";
  for (int b = 0; b < 256; ++b) {
    std::string entry;
    AppendUtf8(entry, ByteToChar(static_cast<uint8_t>(b)));
    if (entry == "\"" || entry == "\\") entry.insert(0, "\\");
    vocab += "\"" + entry + "\":" + std::to_string(b) + ",";
  }
  files.vocab_json = vocab + "\"aa\":256,\"aaaa\":257,\"ab\":258,\"<e\":259}";
  files.merges_txt = "a a\naa aa\na b\n< e\n";
  files.tokenizer_config_json =
      R"({"added_tokens_decoder": {"259": {"content": "<e", "special": true, "normalized": false},
          "300": {"content": "<e>", "special": true, "normalized": false}, "301": {"content": "<e>a", "normalized": true}}})";
  return files;
}

void UseText(std::string_view input) {
  static const Tokenizer tokenizer = Tokenizer::FromFiles(SmallFiles()).value();
  std::vector<TextPiece> pieces;
  for (const std::string_view part : Parts(input, 64)) pieces.push_back({part, pieces.size() % 2 == 0});
  Use(tokenizer, pieces);
}

void UsePattern(std::string_view pattern, std::string_view text) {
  const auto splitter = RegexSplitter::Compile(pattern);
  if (!splitter) return;
  const std::string repaired = ReplaceInvalidUtf8(text.substr(0, 2000));
  std::string joined;
  splitter->Split(repaired, [&](std::string_view piece) {
    Require(!piece.empty());
    joined += piece;
  });
  Require(joined == repaired);
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const char kind = input[0];
  input.remove_prefix(1);
  if (kind == '0') {
    const auto parts = Parts(input, 2);
    TokenizerFiles files;
    files.tokenizer_json = parts[0];
    UseFiles(files, parts.size() > 1 ? parts[1] : "text");
  } else if (kind == '1') {
    const auto parts = Parts(input, 5);
    TokenizerFiles files;
    const auto fill = [&](size_t i, std::optional<std::string>& file) {
      if (i < parts.size() && !parts[i].empty()) file = parts[i];
    };
    fill(0, files.vocab_json);
    fill(1, files.merges_txt);
    fill(2, files.added_tokens_json);
    fill(3, files.tokenizer_config_json);
    UseFiles(files, parts.size() > 4 ? parts[4] : "text");
  } else if (kind == '2') {
    UseText(input);
  } else if (kind == '3') {
    const auto parts = Parts(input, 2);
    UsePattern(parts[0], parts.size() > 1 ? parts[1] : "some text");
  }
}

}  // namespace
}  // namespace minicpm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  minicpm::Run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
