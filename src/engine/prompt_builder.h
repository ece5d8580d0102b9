// PromptBuilder: messages -> template text with placeholders -> ids -> places of the media. Used by engine.cc only.
#pragma once

#include <span>
#include <string>

#include "engine/family.h"
#include "engine/prompt.h"
#include "models/blocks/model_config.h"
#include "text/tokenizer.h"

namespace minicpm {

// Token ids and texts of the placeholder tokens, from the model's own vocabulary.
struct PlaceholderTokens {
  int32_t image_start, image_end, slice_start, slice_end, image_id_start, image_id_end;
  int32_t image_fill, frame_fill;
  int32_t audio_start, audio_end;  // -1 where the model does not hear
};
// Errors: kCorrupt naming the token that the tokenizer lacks.
Result<PlaceholderTokens> FindPlaceholderTokens(const Tokenizer& tokenizer, const FamilyTraits& traits,
                                                bool with_sound);

// Tokens of the views of one picture, and what they are.
struct ViewTokens {
  int64_t overview = 0;
  int64_t slice = 0;  // each
  const char* fill = "<unk>";
};
// The placeholder of one picture, as the official processor writes it:
// <image_id>K</image_id><image>fill*Q</image>, then slices row by row, a newline between rows.
std::string PlaceholderText(const SlicePlan& plan, const ViewTokens& tokens, bool use_image_id, int64_t image_index);

// Rows that a view of this size becomes: Q, or a share of its patches.
int64_t RowsOfView(const ModelConfig& config, const SliceConfig& slicing, Size view);
// V 4.6: patches that become one row with this slicing.
int DownsampleOf(const SliceConfig& slicing);

// Rows that a sound of n samples becomes: pieces of 30 s, each with its own rest dropped.
int64_t RowsOfSound(const AudioConfig& config, int64_t n_samples);

Result<Prompt> BuildPrompt(const ModelConfig& config, const FamilyTraits& traits, const Tokenizer& tokenizer,
                           const PlaceholderTokens& tokens, std::span<const Message> messages,
                           const PromptOptions& options);

}  // namespace minicpm
