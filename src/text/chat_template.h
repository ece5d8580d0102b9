// Chat templates of the families, written natively: messages -> stretches of text for the tokenizer. No Jinja at run
// time. Truth: the "chat_template" that ships with the checkpoints, rendered with Jinja2
// (reference/check_templates.py).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace minicpm {

enum class TemplateFamily { kMiniCpmV26, kMiniCpmV45, kMiniCpmO45, kMiniCpmV46 };
enum class Thinking { kAuto, kOff, kOn };  // kAuto = leave it to the template (its own default)

struct ToolCall {
  std::string name;
  std::string arguments_json;  // passed through as given, so that a model's own broken JSON can be replayed
};

// One part of a message, in order. Media parts carry their placeholder text, which the engine made (trusted).
struct ContentPart {
  std::string text;
  bool trusted = false;
};

struct ChatMessage {
  std::string role;                      // "system", "user", "assistant", "tool"
  std::vector<ContentPart> parts;        // joined by one newline
  std::optional<std::string> reasoning;  // assistant turns only
  std::vector<ToolCall> tool_calls;      // assistant turns only
  bool join_lines = true;                // a newline between parts; false: nothing (o 4.5's frames and their sound)
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

// Errors, with the message's number: kInvalidArgument (no message, unknown role, reasoning or tool calls outside an
// assistant turn, a tool definition that is not a JSON object), kUnsupported (tools or thinking on for V 2.6, tts for a
// family that does not speak). A system turn that is not the first is rendered where it stands, as the templates do. V
// 4.6's template refuses more, and so does this (kInvalidArgument): such a system turn or media in one, no user turn
// that asks something, arguments of a tool call that are no JSON object.
Result<RenderedPrompt> RenderChat(TemplateFamily family, const std::vector<ChatMessage>& messages,
                                  const TemplateOptions& options);

// Does the checkpoint's own template (chat_template.jinja, chat_template.json or "chat_template" in
// tokenizer_config.json) equal one that RenderChat was written from? Returns a warning sentence when it differs (or its
// file cannot be read), nothing when it is known or absent.
std::optional<std::string> CheckChatTemplate(TemplateFamily family, const std::string& folder);

// Splits generated text into reasoning (inside <think>...</think>) and answer, without the newlines that frame them.
// Only a think block that opens the text counts; without its end everything is reasoning.
struct SplitAnswer {
  std::string reasoning;
  std::string text;
};
SplitAnswer SplitReasoning(std::string_view generated, bool starts_inside_think);

}  // namespace minicpm
