// What differs between the families above the towers: template, placeholders, sampling defaults, prompt limits.
// One table, chosen once when the engine opens; nothing else in the engine asks which family it is.
#pragma once

#include <cstdint>

#include "models/blocks/model_config.h"
#include "sampling/sampler.h"
#include "text/chat_template.h"
#include "video/frame_choice.h"

namespace minicpm {

struct FamilyTraits {
  TemplateFamily template_family;
  bool has_thinking;                 // the template knows enable_thinking
  bool opens_think_itself;           // thinking on: the prompt already ends inside <think>
  SamplingOptions sampling;          // the official chat helper's sampling column
  int64_t max_prompt_tokens;         // the chat helper's max_inp_length
  VideoRule video_rule;              // which frames of a video are looked at
  int frame_slices;                  // max_slice_nums for frames, unless the caller says otherwise
  const char* image_fill = "<unk>";  // token that a row of a picture stands for ...
  const char* frame_fill = "<unk>";  // ... and of a video's frame
  int max_frames = 0;                // where it differs from the rule's own number
  bool frames_in_one_part = false;   // a video's placeholders adjoin; else they are parts of the message like any other
};
const FamilyTraits& TraitsOf(Family family);

}  // namespace minicpm
