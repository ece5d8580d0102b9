// SequencePool: the memory of timelines. A sequence is a list of per-layer states: key/value blocks, which rewind
// anywhere, and recurrent states, which go back to snapshots only. Not for deciding what to feed: the engine does that.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/status.h"
#include "ops/attention.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace minicpm {

struct SequenceLayout {
  int64_t n_kv_layers = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  DType kv_dtype = DType::kF32;  // kF32 | kF16 | kI8
  // Floats of state of each recurrent layer (none for Qwen2 / Qwen3).
  std::vector<int64_t> recurrent_floats;
  // Restore points are kept at multiples of this many positions while a recurrent layer exists.
  int64_t snapshot_every = 256;
  // At most so many of a sequence; then the one whose loss leaves the smallest gap goes, the latest stays.
  int64_t max_snapshots = 8;

  // Bytes of one block: keys and values of kKvBlockTokens positions in all layers.
  uint64_t block_bytes() const;
  // One layer's share of it.
  uint64_t layer_bytes() const;
  int64_t total_recurrent_floats() const;
  // Of one sequence of n positions: the states and all restore points they may have.
  uint64_t recurrent_bytes(int64_t n) const;
};

// Key/value memory: per block, per layer: keys [Hkv, 64, Hd], then values [Hkv, 64, Hd]; 8-bit ones are followed by
// their scales, f32, of keys [Hkv, 64] and of values [Hkv, 64].
// Threads: none (owned by one backend). Pages are touched when written first, so an unused context costs address space
// only.
class SequencePool {
 public:
  using Id = int32_t;
  SequencePool(const SequenceLayout& layout, int64_t max_tokens);

  // Reserves room for `context` positions. Errors: kResourceExhausted, with blocks wanted and left.
  Result<Id> New(int64_t context);
  // Shares full blocks (reference counted), copies the last partly filled one, the recurrent state and the snapshots.
  Result<Id> Fork(Id id);
  void Drop(Id id);
  bool Contains(Id id) const { return sequences_.contains(id); }
  // Largest restorable position <= n becomes the new length, and is returned. Requires: 0 <= n.
  int64_t Rewind(Id id, int64_t n);
  // Keeps a restore point at the current length (no-op without recurrent layers); perhaps in place of an older one.
  void Mark(Id id);

  int64_t length(Id id) const { return Get(id).length; }
  int64_t context(Id id) const { return Get(id).context; }
  // How many positions may be fed before the next automatic restore point must be taken.
  int64_t PositionsToSnapshot(Id id) const;

  // A step: Prepare, then per layer Write and Blocks, then Advance. Prepare's errors: kResourceExhausted past the
  // context or when a block shared since Fork must be copied and none is left; nothing has changed then.
  Status Prepare(Id id, int64_t n_new);
  // Stores the key and value rows of positions [position, position + n) of one layer. k, v [n, Hkv * Hd] f32.
  // Requires: Prepare covered these positions.
  void Write(Id id, int64_t layer, int64_t position, ConstMatrix k, ConstMatrix v);
  // Fills out[ceil(n_keys / 64)] with one layer's blocks. Lifetime of the pointers: until the next Prepare or Drop.
  void Blocks(Id id, int64_t layer, int64_t n_keys, KvBlock* out) const;
  // State of one recurrent layer, zero in a new sequence.
  std::span<float> Recurrent(Id id, int64_t layer);
  void Advance(Id id, int64_t n_new);

  const SequenceLayout& layout() const { return layout_; }
  int64_t token_stride() const { return layout_.head_dim; }
  int64_t head_stride() const { return layout_.head_dim * kKvBlockTokens; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }

 private:
  struct Snapshot {
    int64_t position;
    std::vector<float> state;
  };
  struct Sequence {
    int64_t length = 0;
    int64_t context = 0;
    std::vector<int32_t> blocks;  // reserved for the whole context
    std::vector<float> recurrent;
    std::vector<Snapshot> snapshots;  // ascending positions
  };
  const Sequence& Get(Id id) const;
  Sequence& Get(Id id);
  std::byte* BlockData(int32_t block) const { return memory_.get() + static_cast<size_t>(block) * block_bytes_; }
  void Release(int32_t block);
  int32_t Take();
  // Where the parts of one layer's share of a block begin.
  struct LayerPart {
    std::byte* keys;
    std::byte* values;
    float* key_scales;  // null unless 8-bit
    float* value_scales;
  };
  LayerPart Part(int32_t block, int64_t layer) const;

  SequenceLayout layout_;
  uint64_t block_bytes_;
  int64_t n_blocks_;
  AlignedBytes memory_;
  std::vector<int32_t> references_;  // per block
  std::vector<int32_t> free_;
  std::map<Id, Sequence> sequences_;
  Id next_id_ = 0;
};

}  // namespace minicpm
