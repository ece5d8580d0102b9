// The thinking block inside an assistant turn's text, as the Qwen3 family's templates look for it. Not for generated
// text (SplitReasoning in chat_template.h).
#pragma once

#include <string_view>

#include "text/marked_text.h"

namespace minicpm {

inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";

struct ThoughtAndAnswer {
  MarkedText reasoning;  // without newlines at its end
  MarkedText content;
};

// A turn with its reasoning beside it: the whole text is content. Otherwise what stands before the first end of a
// block, behind the last begin before it, is reasoning, and what stands behind the last end is content.
ThoughtAndAnswer SplitThought(const ChatMessage& message, const MarkedText& text);

}  // namespace minicpm
