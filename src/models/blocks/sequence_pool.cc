// Implementation of sequence_pool.h.
#include "models/blocks/sequence_pool.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/half.h"
#include "quant/int8_row.h"

namespace minicpm {
namespace {

int64_t BlocksFor(int64_t n) { return (n + kKvBlockTokens - 1) / kKvBlockTokens; }

// scale: where that of an 8-bit row goes.
void Store(const float* from, int64_t n, DType dtype, std::byte* to, float* scale) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  if (dtype == DType::kI8) {
    *scale = quant::EncodeInt8Row({from, static_cast<size_t>(n)}, reinterpret_cast<int8_t*>(to));
    return;
  }
  auto* half = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) half[i] = F32ToF16(from[i]);
}

}  // namespace

uint64_t SequenceLayout::block_bytes() const { return static_cast<uint64_t>(n_kv_layers) * layer_bytes(); }

uint64_t SequenceLayout::layer_bytes() const {
  const uint64_t row =
      static_cast<uint64_t>(head_dim) * SizeOf(kv_dtype) + (kv_dtype == DType::kI8 ? sizeof(float) : 0);
  return static_cast<uint64_t>(2 * n_kv_heads * kKvBlockTokens) * row;
}

int64_t SequenceLayout::total_recurrent_floats() const {
  int64_t n = 0;
  for (const int64_t f : recurrent_floats) n += f;
  return n;
}

uint64_t SequenceLayout::recurrent_bytes(int64_t n) const {
  const int64_t copies = 1 + std::min(max_snapshots, n / snapshot_every + 1);
  return static_cast<uint64_t>(total_recurrent_floats() * copies) * sizeof(float);
}

SequencePool::SequencePool(const SequenceLayout& layout, int64_t max_tokens)
    : layout_(layout), block_bytes_(layout.block_bytes()), n_blocks_(BlocksFor(max_tokens)) {
  MINICPM_CHECK(layout.kv_dtype == DType::kF32 || layout.kv_dtype == DType::kF16 || layout.kv_dtype == DType::kI8);
  memory_ = AllocateAligned(static_cast<size_t>(n_blocks_) * block_bytes_);
  references_.assign(static_cast<size_t>(n_blocks_), 0);
  for (int64_t b = n_blocks_; b-- > 0;) free_.push_back(static_cast<int32_t>(b));
}

const SequencePool::Sequence& SequencePool::Get(Id id) const {
  const auto it = sequences_.find(id);
  MINICPM_CHECK(it != sequences_.end());
  return it->second;
}

SequencePool::Sequence& SequencePool::Get(Id id) {
  const auto it = sequences_.find(id);
  MINICPM_CHECK(it != sequences_.end());
  return it->second;
}

int32_t SequencePool::Take() {
  MINICPM_CHECK(!free_.empty());
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void SequencePool::Release(int32_t block) {
  int32_t& n = references_[static_cast<size_t>(block)];
  MINICPM_CHECK(n > 0);
  if (--n == 0) free_.push_back(block);
}

Result<SequencePool::Id> SequencePool::New(int64_t context) {
  const int64_t wanted = BlocksFor(context);
  if (context < 1 || wanted > free_blocks()) {
    return Fail(ErrorCode::kResourceExhausted, "a context of " + std::to_string(context) + " positions needs " +
                                                   std::to_string(wanted) + " cache blocks, " +
                                                   std::to_string(free_blocks()) + " are free");
  }
  Sequence s;
  s.context = context;
  for (int64_t i = 0; i < wanted; ++i) s.blocks.push_back(Take());
  s.recurrent.assign(static_cast<size_t>(layout_.total_recurrent_floats()), 0.0f);
  const Id id = next_id_++;
  sequences_.emplace(id, std::move(s));
  return id;
}

Result<SequencePool::Id> SequencePool::Fork(Id id) {
  const Sequence& from = Get(id);
  const int64_t full = from.length / kKvBlockTokens;
  const int64_t wanted = static_cast<int64_t>(from.blocks.size()) - full;
  if (wanted > free_blocks()) {
    return Fail(ErrorCode::kResourceExhausted, "a copy of the sequence needs " + std::to_string(wanted) +
                                                   " cache blocks, " + std::to_string(free_blocks()) + " are free");
  }
  Sequence s = from;
  for (int64_t i = 0; i < full; ++i) ++references_[static_cast<size_t>(s.blocks[static_cast<size_t>(i)])];
  for (size_t i = static_cast<size_t>(full); i < s.blocks.size(); ++i) s.blocks[i] = Take();
  if (from.length % kKvBlockTokens != 0) {
    std::memcpy(BlockData(s.blocks[static_cast<size_t>(full)]), BlockData(from.blocks[static_cast<size_t>(full)]),
                block_bytes_);
  }
  const Id copy = next_id_++;
  sequences_.emplace(copy, std::move(s));
  return copy;
}

void SequencePool::Drop(Id id) {
  for (const int32_t block : Get(id).blocks) Release(block);
  sequences_.erase(id);
}

int64_t SequencePool::Rewind(Id id, int64_t n) {
  MINICPM_CHECK(n >= 0);
  Sequence& s = Get(id);
  if (n >= s.length) return s.length;
  if (layout_.recurrent_floats.empty()) return s.length = n;
  while (!s.snapshots.empty() && s.snapshots.back().position > n) s.snapshots.pop_back();
  if (s.snapshots.empty()) {
    std::fill(s.recurrent.begin(), s.recurrent.end(), 0.0f);
    return s.length = 0;
  }
  s.recurrent = s.snapshots.back().state;
  return s.length = s.snapshots.back().position;
}

void SequencePool::Mark(Id id) {
  Sequence& s = Get(id);
  if (layout_.recurrent_floats.empty() || s.length == 0) return;
  if (!s.snapshots.empty() && s.snapshots.back().position == s.length) return;
  if (static_cast<int64_t>(s.snapshots.size()) >= layout_.max_snapshots) {
    size_t least = 0;
    int64_t smallest = INT64_MAX;
    for (size_t i = 0; i < s.snapshots.size(); ++i) {
      const int64_t before = i == 0 ? 0 : s.snapshots[i - 1].position;
      const int64_t after = i + 1 < s.snapshots.size() ? s.snapshots[i + 1].position : s.length;
      if (after - before < smallest) {
        smallest = after - before;
        least = i;
      }
    }
    s.snapshots.erase(s.snapshots.begin() + static_cast<std::ptrdiff_t>(least));
  }
  s.snapshots.push_back({s.length, s.recurrent});
}

int64_t SequencePool::PositionsToSnapshot(Id id) const {
  if (layout_.recurrent_floats.empty()) return INT64_MAX;
  return layout_.snapshot_every - Get(id).length % layout_.snapshot_every;
}

Status SequencePool::Prepare(Id id, int64_t n_new) {
  Sequence& s = Get(id);
  if (n_new < 0 || s.length + n_new > s.context) {
    return Fail(ErrorCode::kResourceExhausted, std::to_string(s.length) + " + " + std::to_string(n_new) +
                                                   " positions do not fit into the context of " +
                                                   std::to_string(s.context));
  }
  // Rewinding below a Fork makes shared blocks writable again: copy them now.
  const int64_t first = s.length / kKvBlockTokens;
  const int64_t last = BlocksFor(s.length + n_new);
  int64_t shared = 0;
  for (int64_t i = first; i < last; ++i) {
    shared += references_[static_cast<size_t>(s.blocks[static_cast<size_t>(i)])] > 1 ? 1 : 0;
  }
  if (shared == 0) return {};
  if (shared > free_blocks()) {
    return Fail(ErrorCode::kResourceExhausted, "writing to shared positions needs " + std::to_string(shared) +
                                                   " cache blocks, " + std::to_string(free_blocks()) + " are free");
  }
  for (int64_t i = first; i < last; ++i) {
    int32_t& block = s.blocks[static_cast<size_t>(i)];
    if (references_[static_cast<size_t>(block)] <= 1) continue;
    const int32_t own = Take();
    std::memcpy(BlockData(own), BlockData(block), block_bytes_);
    Release(block);
    block = own;
  }
  return {};
}

SequencePool::LayerPart SequencePool::Part(int32_t block, int64_t layer) const {
  const int64_t rows = layout_.n_kv_heads * kKvBlockTokens;
  const size_t half = static_cast<size_t>(rows * layout_.head_dim) * SizeOf(layout_.kv_dtype);
  std::byte* const base = BlockData(block) + static_cast<size_t>(layer) * layout_.layer_bytes();
  LayerPart part{base, base + half, nullptr, nullptr};
  if (layout_.kv_dtype == DType::kI8) {
    part.key_scales = reinterpret_cast<float*>(base + 2 * half);  // aligned: half is a multiple of 64
    part.value_scales = part.key_scales + rows;
  }
  return part;
}

void SequencePool::Write(Id id, int64_t layer, int64_t position, ConstMatrix k, ConstMatrix v) {
  const Sequence& s = Get(id);
  MINICPM_CHECK(position + k.rows <= s.context && k.rows == v.rows);
  const int64_t dim = layout_.head_dim;
  const size_t row_bytes = static_cast<size_t>(dim) * SizeOf(layout_.kv_dtype);
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t p = position + i;
    const LayerPart part = Part(s.blocks[static_cast<size_t>(p / kKvBlockTokens)], layer);
    for (int64_t h = 0; h < layout_.n_kv_heads; ++h) {
      const int64_t row = h * kKvBlockTokens + p % kKvBlockTokens;
      const size_t at = static_cast<size_t>(row) * row_bytes;
      const auto scale = [row](float* scales) { return scales != nullptr ? scales + row : nullptr; };
      Store(k.row(i) + h * dim, dim, layout_.kv_dtype, part.keys + at, scale(part.key_scales));
      Store(v.row(i) + h * dim, dim, layout_.kv_dtype, part.values + at, scale(part.value_scales));
    }
  }
}

void SequencePool::Blocks(Id id, int64_t layer, int64_t n_keys, KvBlock* out) const {
  const Sequence& s = Get(id);
  MINICPM_CHECK(n_keys <= s.context);
  for (int64_t i = 0; i < BlocksFor(n_keys); ++i) {
    const LayerPart part = Part(s.blocks[static_cast<size_t>(i)], layer);
    out[i] = {part.keys, part.values, part.key_scales, part.value_scales};
  }
}

std::span<float> SequencePool::Recurrent(Id id, int64_t layer) {
  int64_t at = 0;
  for (int64_t i = 0; i < layer; ++i) at += layout_.recurrent_floats[static_cast<size_t>(i)];
  return std::span<float>(Get(id).recurrent)
      .subspan(static_cast<size_t>(at), static_cast<size_t>(layout_.recurrent_floats[static_cast<size_t>(layer)]));
}

void SequencePool::Advance(Id id, int64_t n_new) {
  Sequence& s = Get(id);
  s.length += n_new;
  MINICPM_CHECK(s.length <= s.context);
  if (!layout_.recurrent_floats.empty() && s.length % layout_.snapshot_every == 0) Mark(id);
}

}  // namespace minicpm
