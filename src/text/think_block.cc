// Implementation of think_block.h.
#include "text/think_block.h"

namespace minicpm {

ThoughtAndAnswer SplitThought(const ChatMessage& message, const MarkedText& text) {
  ThoughtAndAnswer out;
  out.content = text;
  const std::string_view all = text.text();
  if (message.reasoning) {
    out.reasoning.Append(*message.reasoning, false);
  } else if (all.find(kThinkEnd) != std::string_view::npos) {
    out.content = text.Slice(all.rfind(kThinkEnd) + kThinkEnd.size(), all.size()).LeftStripped();
    out.reasoning = text.Slice(0, all.find(kThinkEnd)).RightStripped();
    const size_t opened = out.reasoning.text().rfind(kThinkBegin);
    if (opened != std::string_view::npos) {
      out.reasoning = out.reasoning.Slice(opened + kThinkBegin.size(), out.reasoning.text().size());
    }
  }
  return out;
}

}  // namespace minicpm
