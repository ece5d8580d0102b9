// Implementation of messages.h. JSON library exceptions end here; depth and size are limited before anything is built.
#include "messages.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "os/mapped_file.h"
#include "picture_source.h"

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxFileBytes = size_t{128} << 20;  // pictures may stand inside as data: URLs
constexpr int kMaxDepth = 64;

std::unexpected<Error> Wrong(const std::string& where, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, where + ": " + what);
}

std::string Found(const Json& value) {
  if (value.is_string()) return "\"" + Printable(value.get_ref<const std::string&>(), 60) + "\"";
  if (value.is_number() || value.is_boolean()) return Printable(value.dump(), 60);
  return value.is_null() ? "null" : value.is_object() ? "an object" : value.is_array() ? "a list" : "something else";
}

// Parses one document; refuses deep nesting and doubled keys, which readers understand differently.
Result<Json> ParseJson(std::string_view text, const std::string& where) {
  std::string problem;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth >= kMaxDepth) problem = "expected at most " + std::to_string(kMaxDepth) + " levels, found more";
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() && !keys.back().insert(value.get<std::string>()).second) {
      problem = "the key " + Found(value) + " stands twice in one object";
    }
    return problem.empty();
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), watch, true);
    if (!problem.empty()) return Wrong(where, problem);
    return json;
  } catch (const Json::parse_error& error) {
    return Wrong(where, "not valid JSON at byte " + std::to_string(error.byte));
  } catch (const std::exception& error) {
    return Wrong(where, "not valid JSON (" + Printable(error.what()) + ")");
  }
}

// The member `key` of an object, or null when it is absent or null.
const Json* Member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::string> TextMember(const Json& object, const char* key, const std::string& where) {
  const Json* value = Member(object, key);
  if (value == nullptr || !value->is_string()) {
    return Wrong(where, std::string("\"") + key + "\" must be a text, found " + (value ? Found(*value) : "nothing"));
  }
  return value->get<std::string>();
}

class Reader {
 public:
  Reader(std::string name, const PictureLoader& load) : name_(std::move(name)), load_(load) {}

  Result<Conversation> Read(const Json& document) {
    const Json* list = &document;
    if (document.is_object()) {
      for (const auto& [key, value] : document.items()) {
        if (key != "messages" && key != "tools") {
          return Wrong(name_, "expected the keys \"messages\" and \"tools\", found \"" + Printable(key, 60) + "\"");
        }
      }
      list = Member(document, "messages");
      if (const Json* tools = Member(document, "tools")) MINICPM_TRY(ReadTools(*tools));
    }
    if (list == nullptr || !list->is_array()) return Wrong(name_, "expected a list of messages");
    if (list->empty()) return Wrong(name_, "expected at least one message, found none");
    for (size_t i = 0; i < list->size(); ++i) {
      MINICPM_TRY(ReadMessage((*list)[i], name_ + ": message " + std::to_string(i + 1)));
    }
    return std::move(out_);
  }

 private:
  Status ReadTools(const Json& tools) {
    if (!tools.is_array()) return Wrong(name_, "\"tools\" must be a list, found " + Found(tools));
    for (const Json& tool : tools) {
      if (!tool.is_object()) return Wrong(name_, "each tool must be an object, found " + Found(tool));
      out_.tools_json.push_back(tool.dump());
    }
    return {};
  }

  Status ReadMessage(const Json& json, const std::string& where) {
    if (!json.is_object()) return Wrong(where, "expected an object, found " + Found(json));
    Message message;
    MINICPM_ASSIGN(message.role, TextMember(json, "role", where));
    static const std::set<std::string, std::less<>> kRoles = {"system", "user", "assistant", "tool"};
    if (!kRoles.contains(message.role)) {
      return Wrong(where,
                   "\"role\" must be system, user, assistant or tool, found \"" + Printable(message.role) + "\"");
    }
    const bool assistant = message.role == "assistant";
    if (assistant && Member(json, "reasoning_content") != nullptr) {
      MINICPM_ASSIGN(message.reasoning, TextMember(json, "reasoning_content", where));
    }
    if (const Json* calls = Member(json, "tool_calls")) {
      if (!assistant) return Wrong(where, "\"tool_calls\" belongs to assistant messages only");
      MINICPM_TRY(ReadToolCalls(*calls, where, message));
    }
    if (const Json* content = Member(json, "content")) {
      MINICPM_TRY(ReadContent(*content, where, message));
    } else if (message.tool_calls.empty()) {
      return Wrong(where, "\"content\" is missing");
    }
    out_.messages.push_back(std::move(message));
    return {};
  }

  Status ReadContent(const Json& content, const std::string& where, Message& message) {
    if (content.is_string()) {
      message.parts.push_back({content.get<std::string>(), nullptr});
      return {};
    }
    if (!content.is_array()) {
      return Wrong(where, "\"content\" must be a text or a list of parts, found " + Found(content));
    }
    for (size_t i = 0; i < content.size(); ++i) {
      MINICPM_TRY(ReadPart(content[i], where + ", part " + std::to_string(i + 1), message));
    }
    return {};
  }

  Status ReadPart(const Json& part, const std::string& where, Message& message) {
    if (!part.is_object()) return Wrong(where, "expected an object, found " + Found(part));
    MINICPM_ASSIGN(const std::string type, TextMember(part, "type", where));
    if (type == "text") {
      MINICPM_ASSIGN(std::string text, TextMember(part, "text", where));
      message.parts.push_back({std::move(text), nullptr});
      return {};
    }
    if (type != "image_url") {
      return Wrong(where, "\"type\" must be text or image_url, found \"" + Printable(type) + "\"");
    }
    if (message.role == "system") return Wrong(where, "a system message cannot hold a picture");
    const Json* image = Member(part, "image_url");
    if (image == nullptr || !image->is_object()) {
      return Wrong(where,
                   "\"image_url\" must be an object {\"url\": ...}, found " + (image ? Found(*image) : "nothing"));
    }
    MINICPM_ASSIGN(const std::string url, TextMember(*image, "url", where));
    auto picture = load_(url, where);
    if (!picture.has_value()) return Annotate(where, std::move(picture).error());
    message.parts.push_back({"", picture->image});
    out_.pictures.push_back(std::move(*picture));
    return {};
  }

  static Status ReadToolCalls(const Json& calls, const std::string& where, Message& message) {
    if (!calls.is_array()) return Wrong(where, "\"tool_calls\" must be a list, found " + Found(calls));
    for (const Json& call : calls) {
      const Json* function = call.is_object() ? Member(call, "function") : nullptr;
      if (function == nullptr || !function->is_object()) {
        return Wrong(where, "each tool call must have an object \"function\"");
      }
      ToolCall out;
      MINICPM_ASSIGN(out.name, TextMember(*function, "name", where));
      const Json* arguments = Member(*function, "arguments");
      if (arguments == nullptr) return Wrong(where, "\"arguments\" of tool call " + Found(out.name) + " is missing");
      if (arguments->is_object()) {
        out.arguments_json = arguments->dump();
      } else {
        MINICPM_ASSIGN(out.arguments_json, TextMember(*function, "arguments", where));
        MINICPM_ASSIGN(const Json parsed, ParseJson(out.arguments_json, where + ", arguments of a tool call"));
        if (!parsed.is_object()) return Wrong(where, "\"arguments\" must hold a JSON object, found " + Found(parsed));
      }
      message.tool_calls.push_back(std::move(out));
    }
    return {};
  }

  std::string name_;
  const PictureLoader& load_;
  Conversation out_;
};

Json ContentOf(const Message& message, const Conversation& conversation) {
  const bool only_text = message.parts.size() == 1 && message.parts[0].image == nullptr;
  if (only_text) return message.parts[0].text;
  Json content = Json::array();
  for (const MessagePart& part : message.parts) {
    if (part.image == nullptr) {
      content.push_back({{"type", "text"}, {"text", part.text}});
      continue;
    }
    std::string url;
    for (const AddressedPicture& picture : conversation.pictures) {
      if (picture.image == part.image) url = picture.url;
    }
    content.push_back({{"type", "image_url"}, {"image_url", {{"url", url}}}});
  }
  return content;
}

Json MessageJson(const Message& message, const Conversation& conversation) {
  Json json = {{"role", message.role}};
  if (!message.parts.empty()) json["content"] = ContentOf(message, conversation);
  if (message.reasoning.has_value()) json["reasoning_content"] = *message.reasoning;
  for (const ToolCall& call : message.tool_calls) {
    json["tool_calls"].push_back(
        {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments_json}}}});
  }
  return json;
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace

Result<Conversation> ParseConversation(std::string_view json, const std::string& name, const PictureLoader& load) {
  MINICPM_ASSIGN(const Json document, ParseJson(json, name));
  return Reader(name, load).Read(document);
}

Result<Conversation> ReadConversation(const std::string& path) {
  MINICPM_ASSIGN(const std::string text, ReadWholeFile(path, kMaxFileBytes));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const auto load = [&folder](const std::string& url, const std::string& name) -> Result<AddressedPicture> {
    MINICPM_ASSIGN(const PictureSource source, ResolvePictureUrl(url, folder));
    MINICPM_ASSIGN(auto image, LoadPicture(source, name));
    return AddressedPicture{std::move(image), source.path.empty() ? url : Absolute(source.path)};
  };
  return ParseConversation(text, Printable(path, 400), load);
}

Result<AddressedPicture> LoadPictureFile(const std::string& path) {
  MINICPM_ASSIGN(auto image, LoadPicture(PictureSource{path, {}}, path));
  return AddressedPicture{std::move(image), Absolute(path)};
}

void SetSystem(Conversation& conversation, const std::string& text) {
  std::vector<Message>& messages = conversation.messages;
  if (!messages.empty() && messages.front().role == "system") messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), Message{"system", {{text, nullptr}}, std::nullopt, {}});
}

std::string WriteConversation(const Conversation& conversation) {
  Json json = {{"messages", Json::array()}};
  for (const Message& message : conversation.messages) json["messages"].push_back(MessageJson(message, conversation));
  for (const std::string& tool : conversation.tools_json) {
    json["tools"].push_back(Json::parse(tool, nullptr, false));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace minicpm::cli
