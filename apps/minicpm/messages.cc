// Implementation of messages.h. JSON library exceptions end here; depth and size are limited before anything is built.
#include "messages.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "media_source.h"
#include "os/mapped_file.h"

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
  Reader(std::string name, const UrlLoader& load) : name_(std::move(name)), load_(load) {}

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
      message.parts.push_back({content.get<std::string>()});
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
      message.parts.push_back({std::move(text)});
      return {};
    }
    const bool inline_audio = type == "input_audio";
    if (!inline_audio && type != "image_url" && type != "audio_url" && type != "video_url") {
      return Wrong(where, "\"type\" must be text, image_url, input_audio, audio_url or video_url, found \"" +
                              Printable(type) + "\"");
    }
    if (message.role == "system") {
      const char* what = type == "image_url" ? "a picture" : type == "video_url" ? "a video" : "sound";
      return Wrong(where, std::string("a system message cannot hold ") + what);
    }
    const Json* medium = Member(part, type.c_str());
    if (medium == nullptr || !medium->is_object()) {
      return Wrong(where, "\"" + type + "\" must be an object " +
                              (inline_audio ? "{\"data\": ..., \"format\": ...}" : "{\"url\": ...}") + ", found " +
                              (medium ? Found(*medium) : "nothing"));
    }
    std::string url;
    if (inline_audio) {  // "format" only repeats what the bytes say
      MINICPM_ASSIGN(const std::string data, TextMember(*medium, "data", where));
      url = "data:audio/x;base64," + data;
    } else {
      MINICPM_ASSIGN(url, TextMember(*medium, "url", where));
    }
    const MediaType kind = type == "image_url"   ? MediaType::kImage
                           : type == "video_url" ? MediaType::kVideo
                                                 : MediaType::kAudio;
    auto loaded = load_(kind, url, where);
    if (!loaded.has_value()) return Annotate(where, std::move(loaded).error());
    message.parts.push_back(loaded->part);
    out_.media.push_back(std::move(*loaded));
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
  const UrlLoader& load_;
  Conversation out_;
};

bool SameMedium(const MessagePart& a, const MessagePart& b) {
  return a.image == b.image && a.audio == b.audio && a.video == b.video;
}

Json ContentOf(const Message& message, const Conversation& conversation) {
  const bool only_text = message.parts.size() == 1 && message.parts[0].is_text();
  if (only_text) return message.parts[0].text;
  Json content = Json::array();
  for (const MessagePart& part : message.parts) {
    if (part.is_text()) {
      content.push_back({{"type", "text"}, {"text", part.text}});
      continue;
    }
    std::string url;
    for (const AddressedMedia& medium : conversation.media) {
      if (SameMedium(medium.part, part)) url = medium.url;
    }
    const char* type = part.image != nullptr ? "image_url" : part.audio != nullptr ? "audio_url" : "video_url";
    content.push_back({{"type", type}, {type, {{"url", url}}}});
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

}  // namespace

Result<Conversation> ParseConversation(std::string_view json, const std::string& name, const UrlLoader& load) {
  MINICPM_ASSIGN(const Json document, ParseJson(json, name));
  return Reader(name, load).Read(document);
}

Result<Conversation> ReadConversation(const std::string& path, MediaLoader& loader) {
  MINICPM_ASSIGN(const std::string text, ReadWholeFile(path, kMaxFileBytes));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const auto load = [&](MediaType type, const std::string& url, const std::string& name) -> Result<AddressedMedia> {
    MINICPM_ASSIGN(const MediaSource source, ResolveMediaUrl(url, folder));
    if (!source.path.empty()) return loader.LoadFile(type, source.path);
    MINICPM_ASSIGN(MessagePart part, loader.Load(type, source, name));
    return AddressedMedia{std::move(part), url};
  };
  return ParseConversation(text, Printable(path, 400), load);
}

Status LoadVideoSounds(Conversation& conversation) {
  for (AddressedMedia& medium : conversation.media) {
    const std::shared_ptr<const VideoInput> silent = medium.part.video;
    if (silent == nullptr) continue;
    MINICPM_ASSIGN(medium.part.video, LoadVideoSound(silent));
    for (Message& message : conversation.messages) {
      for (MessagePart& part : message.parts) {
        if (part.video == silent) part.video = medium.part.video;
      }
    }
  }
  return {};
}

void SetSystem(Conversation& conversation, const std::string& text) {
  std::vector<Message>& messages = conversation.messages;
  if (!messages.empty() && messages.front().role == "system") messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), Message{"system", {{text}}, std::nullopt, {}});
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
