// Whisper's audio encoder as MiniCPM-o 4.5 uses it: log-mel frames of one piece -> one row per 20 ms. Official code:
// modeling_minicpmo.py (MiniCPMWhisperEncoder). Not for sound (src/audio) or for what follows the last norm
// (projector).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/blocks/model_config.h"
#include "models/blocks/tensor_visitor.h"
#include "ops/attention.h"
#include "ops/compute.h"

namespace minicpm {

struct WhisperLayer {
  NormField norm1, norm2;
  LinearField q, k, v, out;  // [A, A]; k has no bias
  LinearField fc1;           // [Fa, A]
  LinearField fc2;           // [A, Fa]
};

// A convolution over time with a kernel of 3 frames, used where it lies as a matrix [A, 3 * inputs].
struct WhisperConv {
  TensorView kernel;        // [A, inputs, 3]
  std::vector<float> bias;  // [A]
};

struct WhisperWeights {
  WhisperConv conv1, conv2;
  TensorView positions;  // [n_positions, A], stored sines: used as they are
  std::vector<WhisperLayer> layers;
  NormField norm;
};

// Names every tensor under `prefix` ("apm.").
Status VisitWhisper(const AudioConfig& config, const std::string& prefix, TensorVisitor& v, WhisperWeights& w);

// Keys and values of what a live sound has been so far, of all layers, f32. Memory grows by 64 frames at a time.
// Threads: one user.
class WhisperCache {
 public:
  explicit WhisperCache(const AudioConfig& config);
  // Frames remembered: [0, n_positions).
  int64_t length() const { return length_; }
  // Forgets all frames and keeps the memory.
  void Clear() { length_ = 0; }

 private:
  friend class WhisperRun;
  // Room for frames [0, n).
  void Reserve(int64_t n);
  // Copies rows of layer `layer` to frames [first, first + k.rows).
  void Store(int64_t layer, int64_t first, ConstMatrix k, ConstMatrix v);
  std::span<const KvBlock> blocks(int64_t layer) const { return views_[static_cast<size_t>(layer)]; }

  int64_t n_layers_;
  int64_t n_embed_;
  int64_t length_ = 0;
  std::vector<AlignedBytes> memory_;         // each [layer][keys, values][64][A]
  std::vector<std::vector<KvBlock>> views_;  // [layer][block]
};

// One piece, or one chunk of a live sound, on its way through the encoder, cut into work of a few tens of milliseconds.
// A frame sees its own block of block_frames() and everything before; with a cache, everything remembered and all of
// the chunk. Lifetime: config, weights, mel and cache outlive it.
class WhisperRun {
 public:
  struct Input {
    ConstMatrix mel;        // [L, n_mels], L >= 1
    int64_t cut_front = 0;  // encoder frames dropped after the convolutions; cut_front + cut_back < (L + 1) / 2
    int64_t cut_back = 0;
    WhisperCache* cache = nullptr;  // null: a whole piece
    int item = 0;                   // number of the piece for the Tap
  };
  // Frames of output: (L + 1) / 2 - cut_front - cut_back. Requires: at most n_positions before the cut.
  // A cache that has no room for the frames (before the cut) and one more is cleared first.
  WhisperRun(const AudioConfig& config, const WhisperWeights& weights, const Input& input);
  // Does the next piece of work; true when output() is complete and the cache remembers the chunk.
  bool Step(Compute& compute);
  // [C, A] after the last norm. Requires: Step returned true.
  Matrix output() const { return hidden_; }

 private:
  void AddPositions(Compute& compute);
  void ProjectQkv(Compute& compute, const WhisperLayer& layer);
  void AttendAndFeedForward(Compute& compute, const WhisperLayer& layer);
  void Attend(Compute& compute, int64_t row, Matrix attended);
  int64_t NextRows(int64_t total) const;
  bool Advance(int64_t n, int64_t total);

  const AudioConfig& config_;
  const WhisperWeights& weights_;
  const Input input_;
  int64_t first_position_ = 0;  // of the first frame
  AlignedBytes memory_;
  Matrix conv1_;               // [L, A], in the memory of q_, k_, v_ until the second convolution has read it
  Matrix conv2_;               // [(L + 1) / 2, A]: hidden_ and what is cut
  Matrix hidden_, q_, k_, v_;  // [C, A] each
  enum class Phase { kConv1, kConv2, kPositions, kQkv, kRest, kNorm, kDone };
  Phase phase_ = Phase::kConv1;
  size_t layer_ = 0;
  int64_t row_ = 0;  // first row of the next piece of work
};

}  // namespace minicpm
