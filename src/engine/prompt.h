// Messages in, token ids and media places out: what a Session is fed with. Placeholders and their counts are made here.
// Not for tokenizer or template rules (src/text) or slicing rules (src/image).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "image/slicing.h"
#include "text/chat_template.h"

namespace minicpm {

// A decoded picture with its identity. Shared between a conversation's prompts.
struct ImageInput {
  std::string name;  // for messages
  Image image;
  std::array<uint8_t, 32> digest;  // SHA-256 of size and pixels
};
Result<std::shared_ptr<const ImageInput>> LoadImageInput(const std::string& path, const ImageLimits& limits = {});
std::shared_ptr<const ImageInput> MakeImageInput(std::string name, Image image);

// Text or a picture (exactly one is set).
struct MessagePart {
  std::string text;
  std::shared_ptr<const ImageInput> image;
};

struct Message {
  std::string role = "user";  // "system", "user", "assistant", "tool"
  std::vector<MessagePart> parts;
  std::optional<std::string> reasoning;
  std::vector<ToolCall> tool_calls;
};

struct PromptOptions {
  Thinking thinking = Thinking::kOff;  // kOff is what the official chat helpers pass
  std::vector<std::string> tools_json;
  std::optional<int> max_slices;     // overrides the checkpoint's max_slice_nums; 1 = overview only
  std::optional<bool> use_image_id;  // overrides the checkpoint's use_image_id
};

struct PromptMedia {
  std::shared_ptr<const ImageInput> image;
  SliceConfig slice_config;
  SlicePlan plan;
};

// Tokens [begin, begin + n) stand for one view of one medium and are replaced by its rows.
struct MediaSpan {
  int64_t begin;
  int64_t n;
  size_t media;  // index into Prompt::media
  int view;      // 0 = overview
};

struct Prompt {
  std::vector<int32_t> ids;
  std::vector<PromptMedia> media;
  std::vector<MediaSpan> spans;      // ascending, disjoint
  bool starts_inside_think = false;  // the template already opened the thinking block

  int64_t n_media_tokens() const;
  int64_t n_views() const { return static_cast<int64_t>(spans.size()); }
};

}  // namespace minicpm
