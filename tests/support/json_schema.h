// Holds JSON that the program printed against a schema of docs/json/: the part of JSON Schema 2020-12 that those files
// use. Not a general validator: a keyword it does not know is an error, so that no rule is skipped in silence.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace minicpm::testing {

// What is wrong with `value`, one sentence each with a JSON pointer ("/usage/prompt_tokens: ..."). Empty = valid.
// Knows: type, enum, const, required, properties, additionalProperties, items, minItems, maxItems, minimum, maximum,
// minLength, $ref to "#/$defs/...". Unknown keywords in any visited part of the schema are reported.
std::vector<std::string> ValidateJson(const nlohmann::json& schema, const nlohmann::json& value);

// What is wrong with the schema itself, everywhere in it: unknown keywords, references that lead nowhere, required
// names without a property.
std::vector<std::string> CheckSchema(const nlohmann::json& schema);

// Reads docs/json/<name>. Throws std::runtime_error when it is missing or no JSON (a test then fails).
nlohmann::json LoadSchema(const std::string& name);

// Parses `text` as exactly one JSON document and validates it against docs/json/<schema_name>.
std::vector<std::string> ValidateText(const std::string& schema_name, const std::string& text);

}  // namespace minicpm::testing
