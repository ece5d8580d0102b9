// JsonObject on nlohmann-json: limits and duplicate keys are checked while parsing, no exception leaves this file.
#include "store/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "os/mapped_file.h"

namespace minicpm {
namespace {

using Json = nlohmann::json;

const Json& NodeAt(const void* node) { return *static_cast<const Json*>(node); }

// Deepest nesting of brackets outside strings; malformed text gives some number, the parser complains later.
int NestingDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

// Parses and remembers the first key that an object holds twice.
class StrictParser {
 public:
  Json Parse(std::string_view text) {
    return Json::parse(text, [this](int, Json::parse_event_t event, Json& value) { return OnEvent(event, value); });
  }
  const std::optional<std::string>& duplicate() const { return duplicate_; }

 private:
  bool OnEvent(Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second && !duplicate_.has_value()) duplicate_ = key;
    }
    return true;
  }

  std::vector<std::set<std::string>> keys_;
  std::optional<std::string> duplicate_;
};

// What a value is, for "but is ...": scalars are quoted, the rest is described.
std::string Describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list of " + std::to_string(value.size());
    case Json::value_t::string:
      return '"' + Printable(value.get_ref<const std::string&>(), 60) + '"';
    default:
      return Printable(value.dump(), 60);
  }
}

std::string Range(const std::string& what, const std::string& min, const std::string& max) {
  return what + " from " + min + " to " + max;
}

std::string Plain(double value) { return Json(value).dump(); }

std::string ExpectedInt(int64_t min, int64_t max) {
  if (min == std::numeric_limits<int64_t>::min() && max == std::numeric_limits<int64_t>::max()) return "a whole number";
  if (max == std::numeric_limits<int64_t>::max()) return "a whole number of at least " + std::to_string(min);
  return Range("a whole number", std::to_string(min), std::to_string(max));
}

std::string ExpectedNumber(double min, double max) {
  const bool has_min = min != -JsonObject::kInfinity;
  const bool has_max = max != JsonObject::kInfinity;
  if (has_min && has_max) return Range("a number", Plain(min), Plain(max));
  if (has_min) return "a number of at least " + Plain(min);
  if (has_max) return "a number of at most " + Plain(max);
  return "a number";
}

bool ReadInt(const Json& value, int64_t min, int64_t max, int64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  out = value.get<int64_t>();
  return out >= min && out <= max;
}

bool ReadNumber(const Json& value, double min, double max, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return out >= min && out <= max;  // false for NaN; infinities do not survive parsing
}

// The elements of a list; a scalar is a list of one.
std::vector<const Json*> Elements(const Json& value) {
  std::vector<const Json*> out;
  if (!value.is_array()) return {&value};
  for (const Json& element : value) out.push_back(&element);
  return out;
}

}  // namespace

struct JsonObject::Document {
  std::string name;
  Json root;
};

Result<JsonObject> JsonObject::ReadFile(const std::string& path, size_t max_bytes) {
  MINICPM_ASSIGN(const std::string text, ReadWholeFile(path, std::min(max_bytes, kMaxBytes)));
  return Parse(text, path);
}

Result<JsonObject> JsonObject::Parse(std::string_view text, const std::string& name) {
  const std::string file = Printable(name, 4096);
  if (text.size() > kMaxBytes) {
    return Fail(ErrorCode::kResourceExhausted, file + ": has " + std::to_string(text.size()) + " bytes, at most " +
                                                   std::to_string(kMaxBytes) + " are accepted");
  }
  if (const int depth = NestingDepth(text); depth > kMaxDepth) {
    return Fail(ErrorCode::kCorrupt, file + ": nests " + std::to_string(depth) + " levels deep, at most " +
                                         std::to_string(kMaxDepth) + " are accepted");
  }
  auto document = std::make_shared<Document>();
  document->name = file;
  try {
    StrictParser parser;
    document->root = parser.Parse(text);
    if (parser.duplicate().has_value()) {
      return Fail(ErrorCode::kCorrupt, file + ": holds the key \"" + Printable(*parser.duplicate(), 60) + "\" twice");
    }
  } catch (const Json::exception& e) {
    std::string_view what = e.what();
    if (const size_t end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
    return Fail(ErrorCode::kCorrupt, file + ": not valid JSON: " + Printable(what, 200));
  }
  if (!document->root.is_object()) {
    return Fail(ErrorCode::kCorrupt, file + ": expected a JSON object, found " + Describe(document->root));
  }
  JsonObject object;
  object.node_ = &document->root;
  object.document_ = std::move(document);
  return object;
}

std::string JsonObject::name() const { return path_.empty() ? document_->name : document_->name + ": " + path_; }

const void* JsonObject::Value(std::string_view key) const {
  const Json& node = NodeAt(node_);
  const auto it = node.find(key);
  return it == node.end() || it->is_null() ? nullptr : &*it;
}

std::string JsonObject::Join(std::string_view key) const {
  const std::string printable = Printable(key, 60);
  return path_.empty() ? printable : path_ + "." + printable;
}

bool JsonObject::Has(std::string_view key) const { return Value(key) != nullptr; }

std::vector<std::string> JsonObject::Keys() const {
  std::vector<std::string> keys;
  for (const auto& item : NodeAt(node_).items()) keys.push_back(item.key());
  return keys;
}

std::unexpected<Error> JsonObject::Complain(std::string_view key, std::string_view expected) const {
  const std::string where = document_->name + ": \"" + Join(key) + "\"";
  const void* value = Value(key);
  if (value == nullptr) return Fail(ErrorCode::kCorrupt, where + " is missing, it must be " + std::string(expected));
  return Fail(ErrorCode::kCorrupt, where + " must be " + std::string(expected) + ", but is " + Describe(NodeAt(value)));
}

Result<int64_t> JsonObject::Int(std::string_view key, int64_t min, int64_t max) const {
  const void* value = Value(key);
  int64_t out = 0;
  if (value == nullptr || !ReadInt(NodeAt(value), min, max, out)) return Complain(key, ExpectedInt(min, max));
  return out;
}

Result<int64_t> JsonObject::IntOr(std::string_view key, int64_t fallback, int64_t min, int64_t max) const {
  if (!Has(key)) return fallback;
  return Int(key, min, max);
}

Result<double> JsonObject::Number(std::string_view key, double min, double max) const {
  const void* value = Value(key);
  double out = 0;
  if (value == nullptr || !ReadNumber(NodeAt(value), min, max, out)) return Complain(key, ExpectedNumber(min, max));
  return out;
}

Result<double> JsonObject::NumberOr(std::string_view key, double fallback, double min, double max) const {
  if (!Has(key)) return fallback;
  return Number(key, min, max);
}

Result<bool> JsonObject::Bool(std::string_view key) const {
  const void* value = Value(key);
  if (value == nullptr || !NodeAt(value).is_boolean()) return Complain(key, "true or false");
  return NodeAt(value).get<bool>();
}

Result<bool> JsonObject::BoolOr(std::string_view key, bool fallback) const {
  if (!Has(key)) return fallback;
  return Bool(key);
}

Result<std::string> JsonObject::String(std::string_view key) const {
  const void* value = Value(key);
  if (value == nullptr || !NodeAt(value).is_string()) return Complain(key, "a string");
  return NodeAt(value).get<std::string>();
}

Result<std::string> JsonObject::StringOr(std::string_view key, std::string_view fallback) const {
  if (!Has(key)) return std::string(fallback);
  return String(key);
}

Result<JsonObject> JsonObject::Object(std::string_view key) const {
  const void* value = Value(key);
  if (value == nullptr || !NodeAt(value).is_object()) return Complain(key, "an object");
  JsonObject object = *this;
  object.node_ = value;
  object.path_ = Join(key);
  return object;
}

Result<std::optional<JsonObject>> JsonObject::ObjectOrNull(std::string_view key) const {
  if (!Has(key)) return std::nullopt;
  return Object(key);
}

Result<std::vector<int64_t>> JsonObject::IntListOr(std::string_view key, std::vector<int64_t> fallback, int64_t min,
                                                   int64_t max) const {
  if (!Has(key)) return fallback;
  std::vector<int64_t> out;
  for (const Json* element : Elements(NodeAt(Value(key)))) {
    if (int64_t number = 0; ReadInt(*element, min, max, number)) {
      out.push_back(number);
    } else {
      return ComplainElement(key, ExpectedInt(min, max), element);
    }
  }
  return out;
}

Result<std::vector<double>> JsonObject::NumberListOr(std::string_view key, std::vector<double> fallback, double min,
                                                     double max) const {
  if (!Has(key)) return fallback;
  std::vector<double> out;
  for (const Json* element : Elements(NodeAt(Value(key)))) {
    if (double number = 0; ReadNumber(*element, min, max, number)) {
      out.push_back(number);
    } else {
      return ComplainElement(key, ExpectedNumber(min, max), element);
    }
  }
  return out;
}

Result<std::vector<std::string>> JsonObject::StringListOr(std::string_view key,
                                                          std::vector<std::string> fallback) const {
  if (!Has(key)) return fallback;
  std::vector<std::string> out;
  for (const Json* element : Elements(NodeAt(Value(key)))) {
    if (!element->is_string()) return ComplainElement(key, "a string", element);
    out.push_back(element->get<std::string>());
  }
  return out;
}

Result<std::vector<JsonObject>> JsonObject::ObjectList(std::string_view key) const {
  std::vector<JsonObject> out;
  if (!Has(key)) return out;
  const Json& list = NodeAt(Value(key));
  if (!list.is_array()) return Complain(key, "a list of objects");
  for (const Json& element : list) {
    if (!element.is_object()) return ComplainElement(key, "an object", &element);
    JsonObject object = *this;
    object.node_ = &element;
    object.path_ = Join(key) + "[" + std::to_string(out.size()) + "]";
    out.push_back(std::move(object));
  }
  return out;
}

std::unexpected<Error> JsonObject::ComplainElement(std::string_view key, std::string_view expected,
                                                   const void* element) const {
  return Fail(ErrorCode::kCorrupt, document_->name + ": every entry of \"" + Join(key) + "\" must be " +
                                       std::string(expected) + ", but one is " + Describe(NodeAt(element)));
}

}  // namespace minicpm
