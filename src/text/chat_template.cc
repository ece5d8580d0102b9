// RenderChat and SplitReasoning of chat_template.h. One function per turn; the words between quotes are the templates'
// own.
#include "text/chat_template.h"

#include <string>
#include <utility>

#include "text/chat_template_v46.h"
#include "text/marked_text.h"
#include "text/python_json.h"
#include "text/think_block.h"

namespace minicpm {
namespace {

std::unexpected<Error> BadMessage(ErrorCode code, size_t index, const std::string& what) {
  return Fail(code, "message " + std::to_string(index + 1) + ": " + what);
}

// The parts of a message as one text.
MarkedText Content(const ChatMessage& message) {
  MarkedText content;
  for (size_t i = 0; i < message.parts.size(); ++i) {
    if (i != 0 && message.join_lines) content.Append("\n", false);
    content.Append(message.parts[i].text, message.parts[i].trusted);
  }
  return content;
}

Status CheckMessages(const std::vector<ChatMessage>& messages) {
  if (messages.empty()) return Fail(ErrorCode::kInvalidArgument, "expected at least one message, found none");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
      return BadMessage(ErrorCode::kInvalidArgument, i,
                        "the role is '" + Printable(role, 40) + "', expected system, user, assistant or tool");
    }
    if (role != "assistant" && (messages[i].reasoning || !messages[i].tool_calls.empty())) {
      return BadMessage(ErrorCode::kInvalidArgument, i, "only an assistant turn can have reasoning or tool calls");
    }
  }
  return {};
}

// MiniCPM-V 2.6: a default system turn, no tools, no thinking.
Result<MarkedText> RenderV26(const std::vector<ChatMessage>& messages, const TemplateOptions& options) {
  if (!options.tools_json.empty()) {
    return Fail(ErrorCode::kUnsupported, "MiniCPM-V 2.6 has no format for tools, found a tool definition");
  }
  if (options.thinking == Thinking::kOn) {
    return Fail(ErrorCode::kUnsupported, "MiniCPM-V 2.6 has no thinking mode, expected thinking off or auto");
  }
  MarkedText out;
  if (messages[0].role != "system") out.Append("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n", true);
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "tool" || !message.tool_calls.empty()) {
      return BadMessage(ErrorCode::kUnsupported, i, "MiniCPM-V 2.6 has no format for tools");
    }
    out.Append("<|im_start|>" + message.role + "\n", true);
    out.Append(Content(message));
    out.Append("<|im_end|>\n", true);
  }
  if (options.add_generation_prompt) out.Append("<|im_start|>assistant\n", true);
  return out;
}

// MiniCPM-V 4.5 and o 4.5: the template of Qwen3, with different ends.
class Qwen3Renderer {
 public:
  Qwen3Renderer(TemplateFamily family, const std::vector<ChatMessage>& messages, const TemplateOptions& options)
      : family_(family), messages_(messages), options_(options) {
    for (const ChatMessage& message : messages) contents_.push_back(Content(message));
    last_query_ = LastQuery();
  }

  Result<MarkedText> Render() {
    MINICPM_TRY(Head());
    for (size_t i = 0; i < messages_.size(); ++i) {
      const std::string& role = messages_[i].role;
      if (role == "user" || (role == "system" && i != 0)) {
        out_.Append("<|im_start|>" + role + "\n", true);
        out_.Append(contents_[i]);
        out_.Append("<|im_end|>\n", true);
      } else if (role == "assistant") {
        Assistant(i);
      } else if (role == "tool") {
        ToolResponse(i);
      }
    }
    if (options_.add_generation_prompt) GenerationPrompt();
    return std::move(out_);
  }

 private:
  // The last user turn that is not a wrapped tool response; all turns behind it belong to the current answer.
  size_t LastQuery() const {
    for (size_t i = messages_.size(); i-- > 0;) {
      const std::string_view text = contents_[i].text();
      const bool wrapped = text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
      if (messages_[i].role == "user" && !wrapped) return i;
    }
    return messages_.size() - 1;
  }

  Status Head() {
    const bool has_system = messages_[0].role == "system";
    if (options_.tools_json.empty()) {
      if (has_system) {
        out_.Append("<|im_start|>system\n", true);
        out_.Append(contents_[0]);
        out_.Append("<|im_end|>\n", true);
      }
      return {};
    }
    out_.Append("<|im_start|>system\n", true);
    if (has_system) {
      out_.Append(contents_[0]);
      out_.Append("\n\n", true);
    }
    out_.Append(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>",
        true);
    for (size_t i = 0; i < options_.tools_json.size(); ++i) {
      auto tool = RewriteJsonObjectLikePython(options_.tools_json[i]);
      if (!tool) return Annotate("tool " + std::to_string(i + 1), std::move(tool).error());
      out_.Append("\n", true);
      out_.Append(*tool, false);
    }
    out_.Append(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n"
        "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n",
        true);
    return {};
  }

  void Assistant(size_t i) {
    const ChatMessage& message = messages_[i];
    auto [reasoning, content] = SplitThought(message, contents_[i]);
    // Only a block found in the text loses the newlines at its beginning.
    if (!message.reasoning) reasoning = reasoning.LeftStripped();
    out_.Append("<|im_start|>assistant\n", true);
    const bool is_last = i + 1 == messages_.size();
    if (i > last_query_ && (is_last || !reasoning.empty())) {
      out_.Append("<think>\n", true);
      out_.Append(reasoning.LeftStripped().RightStripped());
      out_.Append("\n</think>\n\n", true);
      out_.Append(content.LeftStripped());
    } else {
      out_.Append(content);
    }
    for (size_t k = 0; k < message.tool_calls.size(); ++k) {
      if (k != 0 || !content.empty()) out_.Append("\n", true);
      out_.Append("<tool_call>\n{\"name\": \"", true);
      out_.Append(message.tool_calls[k].name, false);
      out_.Append("\", \"arguments\": ", true);
      out_.Append(message.tool_calls[k].arguments_json, false);
      out_.Append("}\n</tool_call>", true);
    }
    out_.Append("<|im_end|>\n", true);
  }

  // Neighbouring tool turns share one user turn.
  void ToolResponse(size_t i) {
    if (i == 0 || messages_[i - 1].role != "tool") out_.Append("<|im_start|>user", true);
    out_.Append("\n<tool_response>\n", true);
    out_.Append(contents_[i]);
    out_.Append("\n</tool_response>", true);
    if (i + 1 == messages_.size() || messages_[i + 1].role != "tool") out_.Append("<|im_end|>\n", true);
  }

  void GenerationPrompt() {
    out_.Append("<|im_start|>assistant\n", true);
    if (options_.thinking == Thinking::kOff) out_.Append("<think>\n\n</think>\n\n", true);
    // V 4.5 opens the block for the model; o 4.5 leaves that to the model.
    if (options_.thinking == Thinking::kOn && family_ == TemplateFamily::kMiniCpmV45) out_.Append("<think>\n", true);
    if (options_.tts) out_.Append("<|tts_bos|>", true);
  }

  TemplateFamily family_;
  const std::vector<ChatMessage>& messages_;
  const TemplateOptions& options_;
  std::vector<MarkedText> contents_;
  size_t last_query_ = 0;
  MarkedText out_;
};

}  // namespace

std::vector<TextPiece> RenderedPrompt::Pieces() const {
  std::vector<TextPiece> pieces;
  pieces.reserve(stretches.size());
  for (const Stretch& stretch : stretches) pieces.push_back({stretch.text, stretch.trusted});
  return pieces;
}

Result<RenderedPrompt> RenderChat(TemplateFamily family, const std::vector<ChatMessage>& messages,
                                  const TemplateOptions& options) {
  MINICPM_TRY(CheckMessages(messages));
  if (options.tts && family != TemplateFamily::kMiniCpmO45) {
    return Fail(ErrorCode::kUnsupported,
                "only MiniCPM-o 4.5 has a template for speech, found tts on for another family");
  }
  auto text = family == TemplateFamily::kMiniCpmV26   ? RenderV26(messages, options)
              : family == TemplateFamily::kMiniCpmV46 ? RenderV46(messages, options)
                                                      : Qwen3Renderer(family, messages, options).Render();
  if (!text) return std::unexpected(std::move(text).error());
  return RenderedPrompt{text->Stretches()};
}

SplitAnswer SplitReasoning(std::string_view generated, bool starts_inside_think) {
  const auto stripped = [](std::string_view text) {
    const size_t begin = text.find_first_not_of('\n');
    if (begin == std::string_view::npos) return std::string();
    return std::string(text.substr(begin, text.find_last_not_of('\n') + 1 - begin));
  };
  std::string_view rest = generated;
  if (!starts_inside_think) {
    const size_t begin = generated.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos || !generated.substr(begin).starts_with(kThinkBegin)) {
      return {"", std::string(generated)};
    }
    rest = generated.substr(begin + kThinkBegin.size());
  }
  const size_t end = rest.find(kThinkEnd);
  if (end == std::string_view::npos) return {stripped(rest), ""};
  const std::string_view answer = rest.substr(end + kThinkEnd.size());
  const size_t begin = answer.find_first_not_of('\n');
  return {stripped(rest.substr(0, end)), begin == std::string_view::npos ? "" : std::string(answer.substr(begin))};
}

}  // namespace minicpm
