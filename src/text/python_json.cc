// Implementation of python_json.h, on simdjson's DOM (which bounds the depth, so that recursion is safe).
#include "text/python_json.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <unordered_map>
#include <utility>
#include <vector>

namespace minicpm {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

void AppendString(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char escaped[8];
          std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
          out += escaped;
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void AppendValue(element value, std::string& out);

using Items = std::vector<std::pair<std::string_view, element>>;

// A dictionary's order: of the first of equal keys, with the value of the last.
Items ItemsOf(simdjson::dom::object object) {
  Items items;
  std::unordered_map<std::string_view, size_t> place;
  for (const auto [key, value] : object) {
    const auto [it, is_new] = place.try_emplace(key, items.size());
    if (is_new) {
      items.emplace_back(key, value);
    } else {
      items[it->second].second = value;
    }
  }
  return items;
}

void AppendObject(simdjson::dom::object object, std::string& out) {
  const Items items = ItemsOf(object);
  out += '{';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ", ";
    AppendString(items[i].first, out);
    out += ": ";
    AppendValue(items[i].second, out);
  }
  out += '}';
}

void AppendValue(element value, std::string& out) {
  switch (value.type()) {
    case element_type::ARRAY: {
      out += '[';
      bool first = true;
      for (const element item : simdjson::dom::array(value)) {
        if (!std::exchange(first, false)) out += ", ";
        AppendValue(item, out);
      }
      out += ']';
      break;
    }
    case element_type::OBJECT:
      AppendObject(value, out);
      break;
    case element_type::INT64:
      out += std::to_string(int64_t(value));
      break;
    case element_type::UINT64:
      out += std::to_string(uint64_t(value));
      break;
    case element_type::DOUBLE:
      out += PythonFloat(double(value));
      break;
    case element_type::STRING:
      AppendString(std::string_view(value), out);
      break;
    case element_type::BOOL:
      out += bool(value) ? "true" : "false";
      break;
    case element_type::NULL_VALUE:
      out += "null";
      break;
  }
}

}  // namespace

std::string PythonFloat(double value) {
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (std::isnan(value)) return "NaN";
  // Shortest digits that read back as the same number: [-]d[.ddd]e[+-]xx
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, error == std::errc() ? static_cast<size_t>(end - buffer) : 0);
  std::string out;
  if (text.starts_with('-')) {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  if (e == std::string_view::npos) return "0.0";
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  const bool negative = text[e + 1] == '-';
  int exponent = 0;
  for (const char c : text.substr(e + 2)) exponent = exponent * 10 + (c - '0');
  if (negative) exponent = -exponent;
  const auto n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out.append(".").append(digits, 1);
    const int magnitude = std::abs(exponent);
    out += exponent < 0 ? "e-" : "e+";
    if (magnitude < 10) out += '0';
    return out + std::to_string(magnitude);
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

namespace {

Result<simdjson::dom::object> ParseObject(simdjson::dom::parser& parser, std::string_view text) {
  element top;
  if (const auto error = parser.parse(text.data(), text.size()).get(top)) {
    return Fail(ErrorCode::kInvalidArgument, std::string("expected a JSON object, found something that is not JSON (") +
                                                 simdjson::error_message(error) + ")");
  }
  if (!top.is_object()) return Fail(ErrorCode::kInvalidArgument, "expected a JSON object, found another JSON value");
  return simdjson::dom::object(top);
}

}  // namespace

Result<std::string> RewriteJsonObjectLikePython(std::string_view text) {
  simdjson::dom::parser parser;
  MINICPM_ASSIGN(const simdjson::dom::object object, ParseObject(parser, text));
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  AppendObject(object, out);
  return out;
}

Result<std::vector<PythonItem>> JsonObjectItemsLikePython(std::string_view text) {
  simdjson::dom::parser parser;
  MINICPM_ASSIGN(const simdjson::dom::object object, ParseObject(parser, text));
  std::vector<PythonItem> out;
  for (const auto& [name, value] : ItemsOf(object)) {
    PythonItem& item = out.emplace_back(PythonItem{std::string(name), ""});
    switch (value.type()) {
      case element_type::STRING:
        item.value = std::string_view(value);
        break;
      case element_type::BOOL:
        item.value = bool(value) ? "True" : "False";
        break;
      case element_type::NULL_VALUE:
        item.value = "None";
        break;
      default:
        AppendValue(value, item.value);
    }
  }
  return out;
}

}  // namespace minicpm
