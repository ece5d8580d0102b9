// Conversations as files: OpenAI-style messages JSON in and out. Not for templates (src/text) or for where media
// come from (media_source.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/prompt.h"
#include "media_loader.h"

namespace minicpm::cli {

struct Conversation {
  std::vector<Message> messages;
  std::vector<std::string> tools_json;
  std::vector<AddressedMedia> media;  // of `messages`, in order
};

// `name` stands for the medium in messages.
using UrlLoader =
    std::function<Result<AddressedMedia>(MediaType type, const std::string& url, const std::string& name)>;

// Reads either a list of messages or {"messages": [...], "tools": [...]}. A message: {"role", "content"} where content
// is a text, null (with tool_calls), or a list of {"type": "text", "text"}, {"type": "image_url", "image_url":
// {"url"}}, the same with audio_url and video_url, and {"type": "input_audio", "input_audio": {"data", "format"}};
// assistant turns may have "tool_calls" and "reasoning_content". Other keys of a message are ignored. `name` stands for
// the file in errors; they say which message is wrong, what was expected and what was found.
Result<Conversation> ParseConversation(std::string_view json, const std::string& name, const UrlLoader& load);

// ParseConversation of a file. Relative paths of media start at the file's folder; addresses become absolute paths.
Result<Conversation> ReadConversation(const std::string& path, MediaLoader& loader);

// Loads the sound tracks of all videos, for a model that hears.
Status LoadVideoSounds(Conversation& conversation);

// Puts `text` in the place of the conversation's system message, or removes that when `text` is empty.
void SetSystem(Conversation& conversation, const std::string& text);

// JSON text that ParseConversation reads back, media by address.
std::string WriteConversation(const Conversation& conversation);

}  // namespace minicpm::cli
