// The small JSON Schema validator behind json_schema.h. Recursion follows the schema, whose depth we wrote ourselves.
// Not hardened against hostile schemas.
#include "tests/support/json_schema.h"

#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace minicpm::testing {
namespace {

using nlohmann::json;
using Errors = std::vector<std::string>;

const std::set<std::string>& Annotations() {
  static const std::set<std::string> names = {"$schema", "$id",         "$defs",   "$comment",
                                              "title",   "description", "examples"};
  return names;
}

const std::set<std::string>& Rules() {
  static const std::set<std::string> names = {
      "type",     "enum",    "const",   "required",  "properties", "additionalProperties", "items", "minItems",
      "maxItems", "minimum", "maximum", "minLength", "$ref"};
  return names;
}

bool IsOfType(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  throw std::runtime_error("schema: unknown type '" + type + "'");
}

bool MatchesType(const json& value, const json& type) {
  if (type.is_string()) return IsOfType(value, type.get<std::string>());
  for (const json& one : type) {
    if (IsOfType(value, one.get<std::string>())) return true;
  }
  return false;
}

// The sub-schema a reference names, or null.
const json* Resolve(const json& root, const std::string& reference) {
  const std::string prefix = "#/$defs/";
  if (reference.rfind(prefix, 0) != 0 || !root.contains("$defs")) return nullptr;
  const json& definitions = root["$defs"];
  const auto it = definitions.find(reference.substr(prefix.size()));
  return it == definitions.end() ? nullptr : &*it;
}

void ReportUnknownKeywords(const json& schema, const std::string& where, Errors& errors) {
  for (const auto& [key, rule] : schema.items()) {
    if (!Rules().contains(key) && !Annotations().contains(key)) {
      errors.push_back(where + ": the schema keyword '" + key + "' is not supported");
    }
  }
}

class Validator {
 public:
  Validator(const json& root, Errors& errors) : root_(root), errors_(errors) {}

  void Visit(const json& schema, const json& value, const std::string& where) {
    ReportUnknownKeywords(schema, where, errors_);
    if (schema.contains("$ref")) {
      const std::string reference = schema["$ref"].get<std::string>();
      const json* target = Resolve(root_, reference);
      if (target == nullptr) {
        Fail(where, "the schema reference '" + reference + "' leads nowhere");
      } else {
        Visit(*target, value, where);
      }
    }
    if (schema.contains("type") && !MatchesType(value, schema["type"])) {
      Fail(where, "expected " + schema["type"].dump() + ", found " + value.type_name());
      return;
    }
    VisitValue(schema, value, where);
    if (value.is_object()) VisitObject(schema, value, where);
    if (value.is_array()) VisitArray(schema, value, where);
  }

 private:
  void Fail(const std::string& where, const std::string& what) {
    errors_.push_back((where.empty() ? "/" : where) + ": " + what);
  }

  void VisitValue(const json& schema, const json& value, const std::string& where) {
    if (schema.contains("const") && value != schema["const"]) Fail(where, "expected " + schema["const"].dump());
    if (schema.contains("enum")) {
      bool found = false;
      for (const json& one : schema["enum"]) found = found || one == value;
      if (!found) Fail(where, "expected one of " + schema["enum"].dump() + ", found " + value.dump());
    }
    if (value.is_number()) {
      if (schema.contains("minimum") && value < schema["minimum"]) Fail(where, value.dump() + " is below the minimum");
      if (schema.contains("maximum") && value > schema["maximum"]) Fail(where, value.dump() + " is above the maximum");
    }
    if (value.is_string() && schema.contains("minLength") &&
        value.get_ref<const std::string&>().size() < schema["minLength"].get<size_t>()) {
      Fail(where, "the string is too short");
    }
  }

  void VisitObject(const json& schema, const json& value, const std::string& where) {
    if (schema.contains("required")) {
      for (const json& name : schema["required"]) {
        if (!value.contains(name.get<std::string>())) Fail(where, "lacks '" + name.get<std::string>() + "'");
      }
    }
    const json none = json::object();
    const json& properties = schema.contains("properties") ? schema["properties"] : none;
    for (const auto& [key, member] : value.items()) {
      if (properties.contains(key)) {
        Visit(properties[key], member, where + "/" + key);
      } else if (schema.contains("additionalProperties")) {
        const json& others = schema["additionalProperties"];
        if (others.is_object()) Visit(others, member, where + "/" + key);
        if (others == json(false)) Fail(where, "has the unexpected key '" + key + "'");
      }
    }
  }

  void VisitArray(const json& schema, const json& value, const std::string& where) {
    if (schema.contains("minItems") && value.size() < schema["minItems"].get<size_t>())
      Fail(where, "has too few items");
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>())
      Fail(where, "has too many items");
    if (!schema.contains("items")) return;
    for (size_t i = 0; i < value.size(); ++i) Visit(schema["items"], value[i], where + "/" + std::to_string(i));
  }

  const json& root_;
  Errors& errors_;
};

void CheckPart(const json& root, const json& schema, const std::string& where, Errors& errors) {
  if (!schema.is_object()) {
    errors.push_back(where + ": a schema must be an object");
    return;
  }
  ReportUnknownKeywords(schema, where, errors);
  if (schema.contains("$ref") && Resolve(root, schema["$ref"].get<std::string>()) == nullptr) {
    errors.push_back(where + ": the reference " + schema["$ref"].dump() + " leads nowhere");
  }
  if (schema.contains("required")) {
    for (const json& name : schema["required"]) {
      if (!schema.contains("properties") || !schema["properties"].contains(name.get<std::string>())) {
        errors.push_back(where + ": requires " + name.dump() + " but does not describe it");
      }
    }
  }
  for (const char* group : {"properties", "$defs"}) {
    if (!schema.contains(group)) continue;
    for (const auto& [key, part] : schema[group].items())
      CheckPart(root, part, where + "/" + group + "/" + key, errors);
  }
  if (schema.contains("items")) CheckPart(root, schema["items"], where + "/items", errors);
  if (schema.contains("additionalProperties") && schema["additionalProperties"].is_object()) {
    CheckPart(root, schema["additionalProperties"], where + "/additionalProperties", errors);
  }
}

}  // namespace

std::vector<std::string> ValidateJson(const json& schema, const json& value) {
  Errors errors;
  Validator(schema, errors).Visit(schema, value, "");
  return errors;
}

std::vector<std::string> CheckSchema(const json& schema) {
  Errors errors;
  CheckPart(schema, schema, "#", errors);
  return errors;
}

json LoadSchema(const std::string& name) {
  const std::string path = std::string(MINICPM_SOURCE_DIR) + "/docs/json/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(text.str());
}

std::vector<std::string> ValidateText(const std::string& schema_name, const std::string& text) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return {"/: this is not one JSON document: " + text.substr(0, 200)};
  return ValidateJson(LoadSchema(schema_name), value);
}

}  // namespace minicpm::testing
