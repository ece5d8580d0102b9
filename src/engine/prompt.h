// Messages in, token ids and media places out: what a Session is fed with. Placeholders and their counts are made here.
// Not for tokenizer or template rules (src/text), slicing (src/image) or the choice of frames (src/video).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/media.h"
#include "image/slicing.h"
#include "text/chat_template.h"
#include "video/frame_choice.h"

namespace minicpm {

// Text, a picture, sound or a video (exactly one is set).
struct MessagePart {
  std::string text;
  std::shared_ptr<const ImageInput> image;
  std::shared_ptr<const AudioInput> audio;
  std::shared_ptr<const VideoInput> video;
  bool is_text() const { return image == nullptr && audio == nullptr && video == nullptr; }
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
  std::optional<int> downsample;     // V 4.6: patches that become one token, 16 or 4; overrides the checkpoint's mode
  VideoChoiceOptions video;          // overrides the family's choice of frames
};

enum class MediaKind { kPicture, kFrames, kSound };

// A stretch of a clip, followed by zeros up to n_padded samples.
struct SoundStretch {
  std::shared_ptr<const AudioInput> audio;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t n_padded = 0;  // >= end - begin
};

// What is encoded as one thing: a picture; frames of a video that share their tokens (or one frame, or a composite);
// all sound of one message, put one after the other as the official processor does.
struct PromptMedia {
  MediaKind kind = MediaKind::kPicture;
  std::shared_ptr<const ImageInput> image;  // kPicture
  std::shared_ptr<const VideoInput> video;  // kFrames ...
  VideoGroup frames;                        // ... and which
  SliceConfig slice_config;                 // kPicture, kFrames
  SlicePlan plan;
  std::vector<SoundStretch> sound;  // kSound
  int64_t n_rows = 0;               // rows of the language model's width that it becomes

  // Views that go through the vision tower, every frame counted.
  int64_t n_views() const;
  int64_t n_samples() const;
};

// Tokens [begin, begin + n) are replaced by rows [row, row + n) of a medium. One view of a picture or of a group of
// frames, or one clip among the sound of its message.
struct MediaSpan {
  int64_t begin;
  int64_t n;
  size_t media;  // index into Prompt::media
  int64_t row;
};

struct Prompt {
  std::vector<int32_t> ids;
  std::vector<PromptMedia> media;
  std::vector<MediaSpan> spans;      // ascending, disjoint
  bool starts_inside_think = false;  // the template already opened the thinking block

  // Tokens that stand for media of this kind.
  int64_t n_tokens(MediaKind kind) const;
  // Views of pictures and frames.
  int64_t n_views() const;
};

}  // namespace minicpm
