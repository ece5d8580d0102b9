// MediaEncoder: pictures of a prompt -> rows of the language model's width, remembered by identity within a session.
// Not for cross-session caches (those come with the service).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <vector>

#include "backends/backend.h"
#include "engine/prompt.h"
#include "engine/session.h"

namespace minicpm {

struct ModelConfig;

// True when two media give the same rows: same pixels, same slicing.
bool SameMedia(const PromptMedia& a, const PromptMedia& b);

class MediaEncoder {
 public:
  MediaEncoder(const ModelConfig& config, Backend& backend) : config_(config), backend_(backend) {}

  // Encodes every medium of `prompt` that has a view at or after position `from` and is not remembered. Forgets media
  // that the prompt does not use. False: cancelled (what was finished stays remembered).
  Result<bool> Encode(const Prompt& prompt, int64_t from, const std::atomic<bool>* cancel,
                      GenerationListener* listener);
  // Rows of one view. Requires: Encode covered it.
  ConstMatrix Rows(const Prompt& prompt, const MediaSpan& span) const;

 private:
  struct Encoded {
    PromptMedia media;
    std::vector<float> rows;  // [views * Q, E]
  };
  const Encoded* Find(const PromptMedia& media) const;
  Result<bool> EncodeOne(const PromptMedia& media, int first_item, int64_t& done, int64_t total,
                         const std::atomic<bool>* cancel, GenerationListener* listener);

  const ModelConfig& config_;
  Backend& backend_;
  std::list<Encoded> encoded_;
};

}  // namespace minicpm
