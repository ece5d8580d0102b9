// JsonObject: a small configuration file, read with typed getters that check and explain. Not for large or streamed
// JSON. Every getter names the file and the key, says what was expected and what was found; the JSON library stays in
// json.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace minicpm {

// A JSON object. Copies share the parsed text (cheap). In every getter a key whose value is null counts as absent: the
// plain getters refuse it, the ...Or getters return `fallback` (which is not checked against the limits).
// Wrong values give kCorrupt; `min` and `max` are inclusive. Threads: const.
class JsonObject {
 public:
  static constexpr size_t kMaxBytes = size_t{4} << 20;
  static constexpr int kMaxDepth = 32;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  // Errors: those of ReadWholeFile; kCorrupt when the text is not one JSON object, nests deeper than kMaxDepth, or
  // has the same key twice in one object.
  static Result<JsonObject> ReadFile(const std::string& path, size_t max_bytes = kMaxBytes);
  // `name` stands for the file in messages. Errors: as ReadFile (kResourceExhausted above kMaxBytes).
  static Result<JsonObject> Parse(std::string_view text, const std::string& name);

  // Present and not null.
  bool Has(std::string_view key) const;
  // Sorted; keys whose value is null included.
  std::vector<std::string> Keys() const;
  // The file, then the path of keys that led here: `config.json` or `config.json: vision_config`.
  std::string name() const;

  // Whole numbers: 12 is one, 12.0 and 1e3 are not.
  Result<int64_t> Int(std::string_view key, int64_t min, int64_t max) const;
  Result<int64_t> IntOr(std::string_view key, int64_t fallback, int64_t min, int64_t max) const;
  // Any finite number.
  Result<double> Number(std::string_view key, double min = -kInfinity, double max = kInfinity) const;
  Result<double> NumberOr(std::string_view key, double fallback, double min = -kInfinity, double max = kInfinity) const;
  Result<bool> Bool(std::string_view key) const;
  Result<bool> BoolOr(std::string_view key, bool fallback) const;
  // UTF-8, may hold any character.
  Result<std::string> String(std::string_view key) const;
  Result<std::string> StringOr(std::string_view key, std::string_view fallback) const;
  Result<JsonObject> Object(std::string_view key) const;
  Result<std::optional<JsonObject>> ObjectOrNull(std::string_view key) const;

  // Lists. A single number or string counts as a list of one (eos_token_id comes both ways).
  Result<std::vector<int64_t>> IntListOr(std::string_view key, std::vector<int64_t> fallback, int64_t min,
                                         int64_t max) const;
  Result<std::vector<double>> NumberListOr(std::string_view key, std::vector<double> fallback, double min = -kInfinity,
                                           double max = kInfinity) const;
  Result<std::vector<std::string>> StringListOr(std::string_view key, std::vector<std::string> fallback) const;
  // The objects of a list; empty when absent.
  Result<std::vector<JsonObject>> ObjectList(std::string_view key) const;

  // An error about `key`, worded like the getters' own, for rules that they cannot express:
  // `config.json: "hidden_size" must be divisible by 16, but is 1153`.
  std::unexpected<Error> Complain(std::string_view key, std::string_view expected) const;

 private:
  struct Document;
  JsonObject() = default;
  const void* Value(std::string_view key) const;  // null when absent or null
  std::string Join(std::string_view key) const;   // path of `key` from the top, printable
  std::unexpected<Error> ComplainElement(std::string_view key, std::string_view expected, const void* element) const;

  std::shared_ptr<const Document> document_;
  const void* node_ = nullptr;  // inside document_
  std::string path_;            // keys that led here, joined by dots; "" at the top
};

}  // namespace minicpm
