// CheckChatTemplate of chat_template.h: compares the SHA-256 of a checkpoint's template with those of the known ones.
#include <openssl/evp.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/read_file.h"

namespace minicpm {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;

// SHA-256 of the template strings (line ends as \n, one final newline dropped, as Jinja does) in the
// tokenizer_config.json of the published checkpoints; the last one is Qwen3's own, which o 4.5 only extends by the
// speech token. That of V 4.6 is its chat_template.jinja.
constexpr std::string_view kV26 = "793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb";
constexpr std::string_view kV45 = "56786063c90f9f67402d4d9af27f5c17f206467d577dc04d6dcfee2d57c8a2f0";
constexpr std::string_view kO45 = "aa5ce37126f54ab4c2a948741f6a93d4dc37547445a91b4eed4010c930d3924f";
constexpr std::string_view kQwen3 = "87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5";

constexpr std::string_view kV46 = "aa15651c20a0b00cac78ab04f517877611913b9478cd20fcca0a5837e3b93958";

bool IsKnown(TemplateFamily family, std::string_view sha256) {
  switch (family) {
    case TemplateFamily::kMiniCpmV26:
      return sha256 == kV26;
    case TemplateFamily::kMiniCpmV45:
      return sha256 == kV45;
    case TemplateFamily::kMiniCpmO45:
      return sha256 == kO45 || sha256 == kQwen3;
    case TemplateFamily::kMiniCpmV46:
      return sha256 == kV46;
  }
  return false;
}

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) return "";
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

std::string NormalLineEnds(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// "chat_template" of a JSON file: a string, or a list of named templates of which "default" counts.
Result<std::optional<std::string>> TemplateInJson(const std::string& path) {
  MINICPM_ASSIGN(const auto bytes, ReadTextFile(path, kMaxFileBytes));
  if (!bytes) return std::nullopt;
  const Json top = Json::parse(*bytes, nullptr, /*allow_exceptions=*/false);
  if (!top.is_object()) return Fail(ErrorCode::kCorrupt, Printable(path) + " is not a JSON object");
  const auto text_at = [](const Json& from, const char* key) -> const std::string* {
    if (!from.is_object()) return nullptr;
    const auto it = from.find(key);
    return it == from.end() ? nullptr : it->get_ptr<const std::string*>();
  };
  if (const std::string* text = text_at(top, "chat_template")) return *text;
  const auto list = top.find("chat_template");
  if (list == top.end() || !list->is_array()) return std::nullopt;
  for (const Json& item : *list) {
    const std::string* name = text_at(item, "name");
    const std::string* text = text_at(item, "template");
    if (name != nullptr && *name == "default" && text != nullptr) return *text;
  }
  return std::nullopt;
}

struct Found {
  std::string text, file;
};

Result<std::optional<Found>> FindTemplate(const std::string& folder) {
  MINICPM_ASSIGN(auto jinja, ReadTextFile(folder + "/chat_template.jinja", kMaxFileBytes));
  if (jinja) return Found{std::move(*jinja), "chat_template.jinja"};
  for (const char* file : {"chat_template.json", "tokenizer_config.json"}) {
    MINICPM_ASSIGN(auto text, TemplateInJson(folder + "/" + file));
    if (text) return Found{std::move(*text), file};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckChatTemplate(TemplateFamily family, const std::string& folder) {
  const auto found = FindTemplate(folder);
  if (!found) return "the chat template could not be compared with the known ones: " + found.error().message;
  if (!*found || IsKnown(family, Sha256Hex(NormalLineEnds((*found)->text)))) return std::nullopt;
  return Printable(folder) + "/" + (*found)->file +
         ": the chat template differs from the one of the published checkpoint, so the built-in rendering may not "
         "match "
         "what this model was trained on";
}

}  // namespace minicpm
