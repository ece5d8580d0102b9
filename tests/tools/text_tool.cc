// Opens src/text to scripts: reads one JSON object a line, writes one a line. For reference/check_tokenizer.py and
// reference/check_templates.py only; not installed, not for users.
//
// Usage: text_tool [FOLDER]     FOLDER holds tokenizer files and is needed for "encode", "pieces" and "decode"
//   {"encode": TEXT | "hex": HEX, "special": BOOL}           -> {"ids": [..]}
//   {"pieces": [[TEXT, TRUSTED], ..]}                        -> {"ids": [..]}
//   {"decode": [ID, ..], "skip_special": BOOL}               -> {"hex": HEX}
//   {"split": TEXT, "pattern": REGEX, "pcre2": BOOL}         -> {"pieces": [TEXT, ..]}
//   {"nfc": TEXT}                                            -> {"text": TEXT}
//   {"render": {"family": .., "messages": [..], "tools": [..], "thinking": .., "generation": .., "tts": ..}} ->
//   {"text": TEXT}
//   {"check_template": FOLDER, "family": ..}                 -> {"warning": TEXT | null}
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/pre_tokenizer.h"
#include "text/regex_splitter.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace minicpm {
namespace {

using Json = nlohmann::ordered_json;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string ToHex(const std::string& bytes) {
  std::string hex;
  for (const unsigned char b : bytes) {
    hex += "0123456789abcdef"[b >> 4];
    hex += "0123456789abcdef"[b & 15];
  }
  return hex;
}

TemplateFamily FamilyOf(const std::string& name) {
  if (name == "v26") return TemplateFamily::kMiniCpmV26;
  if (name == "v45") return TemplateFamily::kMiniCpmV45;
  if (name == "o45") return TemplateFamily::kMiniCpmO45;
  if (name == "v46") return TemplateFamily::kMiniCpmV46;
  throw std::runtime_error("unknown family " + name);
}

ChatMessage MessageOf(const Json& json) {
  ChatMessage message;
  message.role = json.at("role");
  for (const Json& part : json.value("parts", Json::array())) message.parts.push_back({part, false});
  if (json.contains("reasoning")) message.reasoning = json["reasoning"];
  for (const Json& call : json.value("tool_calls", Json::array())) {
    message.tool_calls.push_back({call.at("name"), call.at("arguments")});
  }
  return message;
}

Json Render(const Json& json) {
  std::vector<ChatMessage> messages;
  for (const Json& message : json.at("messages")) messages.push_back(MessageOf(message));
  TemplateOptions options;
  const std::string thinking = json.value("thinking", "auto");
  options.thinking = thinking == "on" ? Thinking::kOn : thinking == "off" ? Thinking::kOff : Thinking::kAuto;
  for (const Json& tool : json.value("tools", Json::array())) options.tools_json.push_back(tool);
  options.add_generation_prompt = json.value("generation", true);
  options.tts = json.value("tts", false);
  const auto prompt = RenderChat(FamilyOf(json.at("family")), messages, options);
  if (!prompt) return {{"error", prompt.error().message}};
  std::string text;
  for (const auto& stretch : prompt->stretches) text += stretch.text;
  return {{"text", text}};
}

Json Split(const Json& json) {
  std::vector<std::string> pieces;
  const auto keep = [&](std::string_view piece) { pieces.emplace_back(piece); };
  const std::string pattern = json.at("pattern");
  const std::string text = json.at("split");
  if (json.value("pcre2", false)) {
    const auto splitter = RegexSplitter::Compile(pattern);
    if (!splitter) return {{"error", splitter.error().message}};
    splitter->Split(text, keep);
  } else {
    const auto splitter = PreTokenizer::FromPattern(pattern);
    if (!splitter) return {{"error", splitter.error().message}};
    splitter->Split(text, keep);
  }
  return {{"pieces", pieces}};
}

Json Answer(const Json& json, const std::optional<Tokenizer>& tokenizer) {
  if (json.contains("render")) return Render(json["render"]);
  if (json.contains("split")) return Split(json);
  if (json.contains("nfc")) {
    std::string out;
    AppendNfc(std::string(json["nfc"]), out);
    return {{"text", out}};
  }
  if (json.contains("check_template")) {
    const auto warning = CheckChatTemplate(FamilyOf(json.at("family")), json["check_template"]);
    return {{"warning", warning ? Json(*warning) : Json(nullptr)}};
  }
  if (!tokenizer) throw std::runtime_error("this needs a folder with tokenizer files");
  if (json.contains("pieces")) {
    std::vector<std::string> texts;
    for (const Json& piece : json["pieces"]) texts.push_back(piece.at(0));
    std::vector<TextPiece> pieces;
    for (size_t i = 0; i < texts.size(); ++i) pieces.push_back({texts[i], json["pieces"][i].at(1)});
    return {{"ids", tokenizer->Encode(pieces)}};
  }
  if (json.contains("decode")) {
    const std::vector<int32_t> ids = json["decode"];
    return {{"hex", ToHex(tokenizer->Decode(ids, json.value("skip_special", false)))}};
  }
  const std::string text = json.contains("hex") ? FromHex(json["hex"]) : std::string(json.at("encode"));
  return {{"ids", tokenizer->Encode(text, json.value("special", false))}};
}

int Main(int argc, char** argv) {
  std::optional<Tokenizer> tokenizer;
  if (argc > 1) {
    const auto start = std::chrono::steady_clock::now();
    auto loaded = Tokenizer::Load(argv[1]);
    if (!loaded) {
      std::cerr << "text_tool: " << loaded.error().message << "\n";
      return 1;
    }
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    std::cerr << "text_tool: " << loaded->vocab_size() << " ids loaded in " << ms.count() << " ms\n";
    tokenizer.emplace(std::move(*loaded));
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json answer = Answer(Json::parse(line), tokenizer);
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) {
  try {
    return minicpm::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "text_tool: " << error.what() << "\n";
    return 2;
  }
}
