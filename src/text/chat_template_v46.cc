// Implementation of chat_template_v46.h. The words between quotes are the template's own.
#include "text/chat_template_v46.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/python_json.h"
#include "text/think_block.h"

namespace minicpm {
namespace {

constexpr std::string_view kToolsHead =
    "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsRules =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within "
    "<tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT "
    "after\n"
    "- If there is no function call available, answer the question like normal with your current knowledge and do not "
    "tell the user about function calls\n</IMPORTANT>";

class Renderer {
 public:
  Renderer(const std::vector<ChatMessage>& messages, const TemplateOptions& options)
      : messages_(messages), options_(options) {
    for (const ChatMessage& message : messages) contents_.push_back(Content(message));
  }

  Result<MarkedText> Render() {
    MINICPM_TRY(FindLastQuery());
    MINICPM_TRY(Head());
    for (size_t i = 0; i < messages_.size(); ++i) {
      const std::string& role = messages_[i].role;
      if (role == "system" && i != 0) return Bad(i, "a system turn must be the first");
      if (role == "user") Turn("user", contents_[i]);
      if (role == "assistant") MINICPM_TRY(Assistant(i));
      if (role == "tool") ToolResponse(i);
    }
    if (options_.add_generation_prompt) {
      out_.Append("<|im_start|>assistant\n<think>\n", true);
      if (options_.thinking != Thinking::kOn) out_.Append("\n</think>\n\n", true);
    }
    return std::move(out_);
  }

 private:
  static std::unexpected<Error> Bad(size_t i, const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument, "message " + std::to_string(i + 1) + ": " + what);
  }

  // Parts, a newline between them, trimmed.
  static MarkedText Content(const ChatMessage& message) {
    MarkedText content;
    for (size_t i = 0; i < message.parts.size(); ++i) {
      if (i != 0) content.Append("\n", false);
      content.Append(message.parts[i].text, message.parts[i].trusted);
    }
    return content.Trimmed();
  }

  void Turn(std::string_view role, const MarkedText& content) {
    out_.Append("<|im_start|>" + std::string(role) + "\n", true);
    out_.Append(content);
    out_.Append("<|im_end|>\n", true);
  }

  // The last user turn that is not a wrapped tool response; all turns behind it belong to the current answer.
  Status FindLastQuery() {
    for (size_t i = messages_.size(); i-- > 0;) {
      const std::string_view text = contents_[i].text();
      const bool wrapped = text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
      if (messages_[i].role != "user" || wrapped) continue;
      last_query_ = i;
      return {};
    }
    return Fail(ErrorCode::kInvalidArgument, "expected a user turn that asks something, found none");
  }

  Status Head() {
    const bool has_system = messages_[0].role == "system";
    const auto& parts = messages_[0].parts;
    if (has_system && std::any_of(parts.begin(), parts.end(), [](const ContentPart& part) { return part.trusted; })) {
      return Bad(0, "a system turn cannot hold pictures or videos");
    }
    if (options_.tools_json.empty()) {
      if (has_system) Turn("system", contents_[0]);
      return {};
    }
    out_.Append(kToolsHead, true);
    for (size_t i = 0; i < options_.tools_json.size(); ++i) {
      auto tool = RewriteJsonObjectLikePython(options_.tools_json[i]);
      if (!tool) return Annotate("tool " + std::to_string(i + 1), std::move(tool).error());
      out_.Append("\n", true);
      out_.Append(*tool, false);
    }
    out_.Append(kToolsRules, true);
    if (has_system && !contents_[0].empty()) {
      out_.Append("\n\n", true);
      out_.Append(contents_[0]);
    }
    out_.Append("<|im_end|>\n", true);
    return {};
  }

  Status Assistant(size_t i) {
    const ChatMessage& message = messages_[i];
    const auto [reasoning, content] = SplitThought(message, contents_[i]);
    out_.Append("<|im_start|>assistant\n", true);
    if (i > last_query_) {
      out_.Append("<think>\n", true);
      out_.Append(reasoning.Trimmed());
      out_.Append("\n</think>\n\n", true);
    }
    out_.Append(content);
    for (size_t k = 0; k < message.tool_calls.size(); ++k) {
      if (k != 0) out_.Append("\n", true);
      if (k == 0 && !content.Trimmed().empty()) out_.Append("\n\n", true);
      MINICPM_TRY(Call(i, message.tool_calls[k]));
    }
    out_.Append("<|im_end|>\n", true);
    return {};
  }

  Status Call(size_t i, const ToolCall& call) {
    auto items = JsonObjectItemsLikePython(call.arguments_json);
    if (!items) {
      return Annotate("message " + std::to_string(i + 1) + ": arguments of a tool call", std::move(items).error());
    }
    out_.Append("<tool_call>\n<function=", true);
    out_.Append(call.name, false);
    out_.Append(">\n", true);
    for (const PythonItem& item : *items) {
      out_.Append("<parameter=", true);
      out_.Append(item.name, false);
      out_.Append(">\n", true);
      out_.Append(item.value, false);
      out_.Append("\n</parameter>\n", true);
    }
    out_.Append("</function>\n</tool_call>", true);
    return {};
  }

  // Neighbouring tool turns share one user turn, which the template does not open when nothing comes before them.
  void ToolResponse(size_t i) {
    if (i != 0 && messages_[i - 1].role != "tool") out_.Append("<|im_start|>user", true);
    out_.Append("\n<tool_response>\n", true);
    out_.Append(contents_[i]);
    out_.Append("\n</tool_response>", true);
    if (i + 1 == messages_.size() || messages_[i + 1].role != "tool") out_.Append("<|im_end|>\n", true);
  }

  const std::vector<ChatMessage>& messages_;
  const TemplateOptions& options_;
  std::vector<MarkedText> contents_;
  size_t last_query_ = 0;
  MarkedText out_;
};

}  // namespace

Result<MarkedText> RenderV46(const std::vector<ChatMessage>& messages, const TemplateOptions& options) {
  return Renderer(messages, options).Render();
}

}  // namespace minicpm
