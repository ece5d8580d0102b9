// The chat template of MiniCPM-V 4.6, which is that of Qwen3.5 with its own default for thinking. Private to src/text:
// chat_template.h calls it.
#pragma once

#include <vector>

#include "text/chat_template.h"
#include "text/marked_text.h"

namespace minicpm {

// Requires: messages that passed RenderChat's checks. Errors: as RenderChat.
Result<MarkedText> RenderV46(const std::vector<ChatMessage>& messages, const TemplateOptions& options);

}  // namespace minicpm
