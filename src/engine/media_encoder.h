// MediaEncoder: pictures, frames and sound of a prompt -> rows of the language model's width. Pictures and sound are
// remembered by identity within a session; frames of a video are decoded, encoded, handed out and dropped.
// Not for cross-session caches (those come with the service).
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "audio/log_mel.h"
#include "backends/backend.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "engine/view_cache.h"

namespace minicpm {

struct ModelConfig;

// True when two media give the same rows: same pixels and slicing, same frames, same sound.
bool SameMedia(const PromptMedia& a, const PromptMedia& b);

class MediaEncoder {
 public:
  // Time and work since the last Begin.
  struct Work {
    double frame_decode_ms = 0;  // reading frames of videos
    double vision_ms = 0;        // resizing, vision tower, resampler
    double sound_ms = 0;         // mel frames, audio tower, projector
    int64_t n_encoded_views = 0;
    int64_t n_reused_views = 0;  // equal to a view that was encoded before
  };

  MediaEncoder(const ModelConfig& config, Backend& backend, const SessionOptions& options);

  // Starts with a prompt whose positions below `from` are held already. Forgets media that the prompt does not use.
  void Begin(const Prompt& prompt, int64_t from, const std::atomic<bool>* cancel, GenerationListener* listener);
  // Makes the rows of all spans that touch positions [begin, end). False: cancelled (what was finished stays).
  Result<bool> Encode(const Prompt& prompt, int64_t begin, int64_t end);
  // Rows of one span. Requires: Encode covered it, Release did not.
  ConstMatrix Rows(const Prompt& prompt, const MediaSpan& span) const;
  // Drops the rows of frames whose spans all end at or below `end`.
  void Release(const Prompt& prompt, int64_t end);
  const Work& work() const { return work_; }

 private:
  struct Encoded {
    PromptMedia media;
    std::vector<float> rows;  // [n_rows, E]
  };
  const Encoded* Find(const PromptMedia& media) const;
  Result<std::vector<Image>> Frames(const PromptMedia& media);
  Result<bool> EncodeViews(const Prompt& prompt, size_t index);
  Result<bool> EncodeView(std::vector<Image>& frames, const PromptMedia& media, int view, int item, Matrix out);
  Result<bool> RunVision(std::vector<Image>& frames, const PromptMedia& media, int item, Matrix out);
  Result<bool> EncodeSound(const PromptMedia& media);
  Result<bool> Run(Job& job);

  const ModelConfig& config_;
  Backend& backend_;
  const std::atomic<bool>* cancel_ = nullptr;
  GenerationListener* listener_ = nullptr;
  std::list<Encoded> encoded_;
  std::optional<ViewCache> views_;
  std::optional<LogMel> mel_;
  std::shared_ptr<const VideoInput> reading_;  // whose frames reader_ reads
  std::unique_ptr<VideoReader> reader_;
  Work work_;
  int64_t n_views_done_ = 0;
  int64_t n_views_ = 0;  // of this prompt, to be encoded
};

}  // namespace minicpm
