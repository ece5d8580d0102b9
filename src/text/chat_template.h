// Chat templates of the families, written natively: messages -> stretches of text for the tokenizer. No Jinja at run time.
// Fact sheet: preprocessing section 10; truth in tests: the chat_template that ships with the tokenizers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace minicpm {

enum class TemplateFamily { kMiniCpmV26, kMiniCpmV45, kMiniCpmO45 };
enum class Thinking { kAuto, kOff, kOn };  // kAuto = leave it to the template (its own default)

struct ToolCall {
  std::string name;
  std::string arguments_json;  // a JSON object, compact or not, passed through as given
};

// One part of a message, in order. Media parts carry their placeholder text, which the engine made (trusted).
struct ContentPart {
  std::string text;
  bool trusted = false;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::vector<ContentPart> parts;  // joined by one newline
  std::optional<std::string> reasoning;  // assistant turns only
  std::vector<ToolCall> tool_calls;      // assistant turns only
};

struct TemplateOptions {
  Thinking thinking = Thinking::kAuto;
  std::vector<std::string> tools_json;  // each one JSON object, OpenAI "tool" shape
  bool add_generation_prompt = true;
  bool tts = false;  // o-4.5: append <|tts_bos|>
};

// Owns the text that TextPiece views need.
struct RenderedPrompt {
  struct Stretch {
    std::string text;
    bool trusted;
  };
  std::vector<Stretch> stretches;
  std::vector<TextPiece> Pieces() const;
};

// Errors: kInvalidArgument (unknown role, system turn not first, tool JSON that is not an object: names the message number).
Result<RenderedPrompt> RenderChat(TemplateFamily family, const std::vector<ChatMessage>& messages,
                                  const TemplateOptions& options);

// Does the checkpoint's own template (tokenizer_config.json "chat_template" or chat_template.jinja) equal one that
// RenderChat was written from? Returns a warning sentence when it differs or nothing when it is known or absent.
std::optional<std::string> CheckChatTemplate(TemplateFamily family, const std::string& folder);

// Splits generated text into reasoning (inside <think>...</think>) and answer.
struct SplitAnswer {
  std::string reasoning;
  std::string text;
};
SplitAnswer SplitReasoning(std::string_view generated, bool starts_inside_think);

}  // namespace minicpm
