// Implementation of family.h. Values from the official modeling files' `chat` functions and the model cards' video
// code.
#include "engine/family.h"

#include "base/check.h"

namespace minicpm {

const FamilyTraits& TraitsOf(Family family) {
  static const FamilyTraits kV26{TemplateFamily::kMiniCpmV26,
                                 false,
                                 false,
                                 {.temperature = 0.7f, .top_k = 100, .top_p = 0.8f, .repetition_penalty = 1.05f},
                                 8192,
                                 VideoRule::kEverySecond,
                                 2};
  static const FamilyTraits kV45{TemplateFamily::kMiniCpmV45,
                                 true,
                                 true,
                                 {.temperature = 0.7f, .top_k = 100, .top_p = 0.8f, .repetition_penalty = 1.03f},
                                 16384,
                                 VideoRule::kPacked,
                                 1};
  static const FamilyTraits kO45{TemplateFamily::kMiniCpmO45,
                                 true,
                                 false,
                                 {.temperature = 0.7f, .top_k = 100, .top_p = 0.8f, .repetition_penalty = 1.02f},
                                 8192,
                                 VideoRule::kWithSound,
                                 1};
  // Frames are chosen as o 4.5 does, up to twice as many; there is no sound. No chat helper: generation_config.json.
  static const FamilyTraits kV46{TemplateFamily::kMiniCpmV46,
                                 true,
                                 true,
                                 {.temperature = 0.7f, .top_k = 0, .top_p = 1.0f, .repetition_penalty = 1.0f},
                                 16384,
                                 VideoRule::kWithSound,
                                 1,
                                 "<|image_pad|>",
                                 "<|video_pad|>",
                                 128,
                                 true};
  switch (family) {
    case Family::kMiniCpmV26:
      return kV26;
    case Family::kMiniCpmV45:
      return kV45;
    case Family::kMiniCpmO45:
      return kO45;
    case Family::kMiniCpmV46:
      return kV46;
  }
  CheckFailed(__FILE__, __LINE__, "family");
}

}  // namespace minicpm
