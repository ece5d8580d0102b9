// Backend: who computes the towers. The engine talks to this interface only and asks Caps, never a backend's name.
// Vision and audio are Jobs that run in short pieces; language is sequences that advance by Step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "tensor/tap.h"
#include "tensor/tensor.h"

namespace minicpm {

struct Caps {
  bool ragged_batch = false;  // one Step may hold items of different lengths and sequences
  bool rewind = false;        // Rewind(n) reaches n exactly; otherwise an earlier snapshot
  bool preemptible = false;   // Job::Step returns near its deadline instead of finishing in one call
  bool batch_exact = false;   // a row's result never depends on what else is in the Step, bit for bit
  bool hidden = false;        // hidden states can be asked for
  bool vision = false;
  bool audio = false;
};

// What the engine must know about the loaded model's interface.
struct BackendShape {
  int64_t n_embed = 0;       // E
  int64_t n_vocab = 0;       // N, rows of the head
  int64_t n_image_rows = 0;  // Q, rows that one group of views becomes; of V 4.6: that a 448 x 448 view becomes
  int64_t n_mels = 0;        // mel bins of the audio tower; 0 = it does not hear
};

// One view of a picture or one video frame, as patches. Lifetime: `patches` and `position_ids` outlive the Job.
struct VisionView {
  ConstMatrix patches;                    // [P, C] f32, normalised
  const int32_t* position_ids = nullptr;  // [P] rows of the learned position table
  int grid_rows = 0;                      // h; P = h * w
  int grid_cols = 0;                      // w
  int temporal_id = -1;                   // -1 = a still picture
};
// Views whose keys are put together in the resampler; a still view is a group of its own. Each group gives Q rows.
using VisionGroup = std::span<const VisionView>;

struct VisionRequest {
  std::span<const VisionGroup> groups;
  Matrix out;          // [groups * Q, E] f32, filled group by group; of V 4.6 [patches / downsample, E]
  int first_item = 0;  // number of the first view, for the Tap
  int downsample = 0;  // V 4.6: patches that become one row, 16 or 4; 0 = as the model's configuration says
};

// One live sound whose earlier chunks are remembered as keys and values.
using AudioStreamId = int32_t;

// Log-mel frames of one piece of sound, at most 30 s. Frames are L, encoder frames (L + 1) / 2, rows are encoder frames
// divided by the model's pool step, rounded down (audio/token_count.h): 0 for short pieces, and then nothing is done.
// Lifetime: `mel` and `out` outlive the Job.
struct AudioRequest {
  ConstMatrix mel;  // [L, mel bins] f32
  Matrix out;       // [rows, E] f32
  int item = 0;     // number of the piece, for the Tap
  // >= 0: the next chunk of that stream. It sees all earlier ones (no block mask), and its positions go on from theirs;
  // when they would reach the end of the position table, the stream forgets and starts again at 0 by itself.
  AudioStreamId stream = -1;
  // Mel frames of context in front and behind, cut away again after the convolutions: the first (prefix_frames + 1) / 2
  // and the last (suffix_frames + 1) / 2 encoder frames. Rows are counted after the cut.
  int prefix_frames = 0;
  int suffix_frames = 0;
};

// A running encode. Dropping it cancels it. Threads: the backend's one user.
class Job {
 public:
  virtual ~Job() = default;
  // Works until done or until `deadline_ms` (os/clock.h time) has passed, at least one piece. True when finished.
  virtual Result<bool> Step(double deadline_ms) = 0;
  // Groups whose rows in `out` are final.
  virtual int64_t groups_done() const = 0;
};

using SeqId = int32_t;

enum class WantRows { kNone, kLast, kAll };

// A run of new positions for one sequence. Several items of one Step may continue the same sequence, in order.
struct StepItem {
  SeqId seq = -1;
  std::span<const int32_t> token_ids;  // either token ids ...
  ConstMatrix embeddings;              // ... or ready rows [n, E]
  WantRows want_logits = WantRows::kNone;
  Matrix logits;  // [rows wanted, N], filled by Step
  WantRows want_hidden = WantRows::kNone;
  Matrix hidden;  // [rows wanted, E], after the final norm, filled by Step
  int64_t n() const { return token_ids.empty() ? embeddings.rows : static_cast<int64_t>(token_ids.size()); }
};

// Threads: one user at a time (the worker that owns it).
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Caps caps() const = 0;
  virtual BackendShape shape() const = 0;
  // "avx2", "scalar", or a library's device name; for reports only.
  virtual const char* isa() const = 0;
  virtual int n_threads() const = 0;
  virtual void set_tap(Tap* tap) = 0;

  // Errors: kUnsupported when the model or backend lacks the tower; kInvalidArgument for shapes that do not fit.
  virtual Result<std::unique_ptr<Job>> BeginVision(const VisionRequest& request) = 0;
  // At most one unfinished Job a stream; a stream whose Job was dropped before its end must be reset.
  virtual Result<std::unique_ptr<Job>> BeginAudio(const AudioRequest& request) = 0;

  // A live sound that has heard nothing yet. Its memory grows while it listens. Errors: as BeginAudio.
  virtual Result<AudioStreamId> NewAudioStream() = 0;
  // Forgets what the stream has heard; the memory is kept for what comes.
  virtual void ResetAudioStream(AudioStreamId stream) = 0;
  virtual void DropAudioStream(AudioStreamId stream) = 0;

  // A new, empty timeline with room for `context` positions reserved. Errors: kResourceExhausted with the numbers.
  virtual Result<SeqId> NewSeq(int64_t context) = 0;
  // A second timeline that starts as a copy of `seq`.
  virtual Result<SeqId> Fork(SeqId seq) = 0;
  // Goes back to at most `n` positions; returns the position reached (the caller feeds the rest again).
  virtual Result<int64_t> Rewind(SeqId seq, int64_t n) = 0;
  // Keeps a restore point at the current position (end of a medium or turn), where rewinding needs one.
  virtual void Mark(SeqId seq) = 0;
  virtual void Drop(SeqId seq) = 0;
  virtual int64_t Position(SeqId seq) const = 0;
  // Memory that a sequence of `n` positions takes.
  virtual uint64_t BytesFor(int64_t n) const = 0;

  // Feeds all items. Errors: kResourceExhausted past a sequence's context, kInvalidArgument for ids outside the
  // vocabulary; after an error no sequence has moved.
  virtual Status Step(std::span<StepItem> items) = 0;
};

}  // namespace minicpm
