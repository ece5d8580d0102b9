// Session: one timeline on one backend. Callers hand in the whole prompt every time; the session feeds only what
// differs from what it already holds, then generates.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace minicpm {

enum class FinishReason { kStop, kLength, kContext, kCancelled };
// "stop", "length", "context", "cancelled".
const char* FinishReasonName(FinishReason reason);

// Prompt lookup: tokens that stood after the last ones before are fed along and kept where the model agrees. The answer
// is the same in every mode; a backend whose rows depend on their neighbours, or that cannot rewind, does without.
enum class Lookup { kOff, kOn, kAuto };  // kAuto: only where it is likely to pay

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_new_tokens = 2048;
  std::vector<std::string> stop;    // generation ends before the first of these strings
  bool ignore_stop_tokens = false;  // benchmarks and goldens: run to max_new_tokens
  Lookup lookup = Lookup::kAuto;
  int lookup_tokens = 3;                      // guessed at once, 1..PromptLookup::kMostTokens
  const std::atomic<bool>* cancel = nullptr;  // set it from anywhere to stop soon
};

// One view of a medium went through the vision tower, or was known already.
struct ViewProgress {
  int64_t done = 0;  // views of this prompt, every frame counted, this one included
  int64_t total = 0;
  size_t media = 0;  // index into Prompt::media
  int view = 0;      // within the medium
  double ms = 0;
};

// Progress and text while Generate runs; every method may be left alone. Threads: called on the caller's thread.
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  virtual void OnViewEncoded(const ViewProgress& /*progress*/) {}
  // Seconds of one message's sound.
  virtual void OnSoundEncoded(double /*done_s*/, double /*total_s*/) {}
  virtual void OnPrefill(int64_t /*done*/, int64_t /*total*/) {}
  // New text, always whole UTF-8 characters. Includes the reasoning, if the model thinks.
  virtual void OnText(std::string_view /*text*/) {}
};

struct GenerationResult {
  std::vector<int32_t> token_ids;  // generated, without the stop token
  std::string text;                // all of it; SplitReasoning takes it apart
  FinishReason finish_reason = FinishReason::kStop;
  int64_t n_prompt_tokens = 0;
  int64_t n_cached_tokens = 0;    // prompt positions that needed no work
  int64_t n_image_tokens = 0;     // of the prompt, as the next two
  int64_t n_audio_tokens = 0;     // sound of videos included
  int64_t n_video_tokens = 0;     // frames
  int64_t n_image_views = 0;      // views of pictures and frames in the prompt
  int64_t n_encoded_views = 0;    // of those, through the vision tower in this call
  int64_t n_reused_views = 0;     // of those, known by their pixels (SessionOptions::reuse_views)
  int64_t n_drafted_tokens = 0;   // guessed by prompt lookup and fed
  int64_t n_accepted_tokens = 0;  // of those, right
  double frame_decode_ms = 0;     // frames of videos
  double image_encode_ms = 0;     // pictures and frames
  double audio_encode_ms = 0;     // mel frames included
  double prefill_ms = 0;
  double first_token_ms = 0;  // from the start of Generate
  double decode_ms = 0;       // from the first token to the last
  double total_ms = 0;
};

struct SessionOptions {
  int64_t context = 0;          // 0 = the engine's default
  int64_t prefill_chunk = 512;  // positions fed at once; 0 = all
  // Views whose pixels equal those of a view of the prompt before are not encoded again; the answer is the same. With
  // view_noise > 0 also where no value differs by more than it (0..255), and then the answer may differ.
  bool reuse_views = false;
  int view_noise = 0;
};

// Threads: one user at a time. Lifetime: keeps engine alive; `backend` outlives it.
class Session {
 public:
  static Result<std::unique_ptr<Session>> Create(std::shared_ptr<const Engine> engine, Backend& backend,
                                                 const SessionOptions& options);
  ~Session();

  // Encodes, feeds and generates. A cancelled call leaves a session that can go on.
  // Errors: kResourceExhausted when the prompt does not fit into the context (with both numbers).
  Result<GenerationResult> Generate(const Prompt& prompt, const GenerationOptions& options,
                                    GenerationListener* listener = nullptr);

  // Brings the timeline to exactly `prompt` and leaves the last row's logits in last_logits(). True unless cancelled.
  Result<bool> Feed(const Prompt& prompt, const std::atomic<bool>* cancel, GenerationListener* listener);
  std::span<float> last_logits();

  // Positions held now.
  int64_t length() const;
  // Forgets positions from n on (for tests and tools; Generate does this by itself).
  Status Rewind(int64_t n);

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace minicpm
