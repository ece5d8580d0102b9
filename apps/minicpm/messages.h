// Conversations as files: OpenAI-style messages JSON in and out. Not for templates (src/text) or for where pictures
// come from (picture_source.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/prompt.h"

namespace minicpm::cli {

// A picture with the address it was loaded from, for writing the conversation down again.
struct AddressedPicture {
  std::shared_ptr<const ImageInput> image;
  std::string url;
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<std::string> tools_json;
  std::vector<AddressedPicture> pictures;  // of `messages`, in order
};

using PictureLoader = std::function<Result<AddressedPicture>(const std::string& url, const std::string& name)>;

// Reads either a list of messages or {"messages": [...], "tools": [...]}. A message: {"role", "content"} where content
// is a text, null (with tool_calls), or a list of {"type": "text", "text"} and {"type": "image_url", "image_url":
// {"url"}}; assistant turns may have "tool_calls" and "reasoning_content". Other keys of a message are ignored. `name`
// stands for the file in errors; they say which message is wrong, what was expected and what was found.
Result<Conversation> ParseConversation(std::string_view json, const std::string& name, const PictureLoader& load);

// ParseConversation of a file. Relative picture paths start at the file's folder; addresses become absolute paths.
Result<Conversation> ReadConversation(const std::string& path);

// A picture from the command line, its address the absolute path.
Result<AddressedPicture> LoadPictureFile(const std::string& path);

// Puts `text` in the place of the conversation's system message, or removes that when `text` is empty.
void SetSystem(Conversation& conversation, const std::string& text);

// JSON text that ParseConversation reads back, pictures by address.
std::string WriteConversation(const Conversation& conversation);

}  // namespace minicpm::cli
