// Implementation of attention.h: every KV head's query rows are cut into chunks, a chunk is one kernel call.
#include "ops/attention.h"

#include <algorithm>

#include "kernels/table.h"

namespace minicpm {
namespace {

// Rows of one kernel call. Laying out a block of keys and values is paid once a call; with more rows than this, queries
// and results of a call would leave the second-level cache.
constexpr int64_t kMostChunkRows = 512;
constexpr int64_t kLeastChunkRows = 24;

// Tokens of one kernel call: few enough that every thread gets several.
int64_t ChunkTokens(int64_t tokens, int64_t group, int64_t n_kv_heads, int threads) {
  const int64_t fair = tokens * group * n_kv_heads / (8 * threads);
  const int64_t rows = std::clamp(fair, kLeastChunkRows, kMostChunkRows);
  return std::min(std::max<int64_t>(1, rows / group), tokens);
}

kernels::KvFormat FormatOf(DType dtype) {
  if (dtype == DType::kI8) return kernels::KvFormat::kI8;
  MINICPM_CHECK(dtype == DType::kF32 || dtype == DType::kF16);
  return dtype == DType::kF16 ? kernels::KvFormat::kF16 : kernels::KvFormat::kF32;
}

void Attend(Compute& compute, const AttentionArgs& args) {
  const int64_t tokens = args.q.rows;
  if (tokens == 0) return;
  MINICPM_CHECK(args.n_kv_heads > 0 && args.head_dim > 0 && args.n_heads % args.n_kv_heads == 0);
  MINICPM_CHECK(args.q.cols == args.n_heads * args.head_dim && args.out.cols == args.q.cols && args.out.rows == tokens);
  const kernels::KvFormat format = FormatOf(args.kv_dtype);
  const int64_t first_visible = args.causal ? args.first_position + 1 : args.n_keys;
  const int64_t last_visible = args.causal ? args.first_position + tokens : args.n_keys;
  MINICPM_CHECK(first_visible >= 1 && last_visible <= args.n_keys);
  MINICPM_CHECK(static_cast<int64_t>(args.blocks.size()) * kKvBlockTokens >= last_visible);

  const kernels::AttentionKernels& kernel = *compute.kernels().attention;
  const int64_t group = args.n_heads / args.n_kv_heads;
  const int64_t chunk_tokens = ChunkTokens(tokens, group, args.n_kv_heads, compute.pool().size());
  const int64_t n_chunks = (tokens + chunk_tokens - 1) / chunk_tokens;
  const int64_t scratch_floats = (kernel.scratch_floats(chunk_tokens * group, args.head_dim) + 15) / 16 * 16;
  float* const scratch = compute.scratch().New<float>(scratch_floats * compute.pool().size());

  compute.pool().ParallelFor(args.n_kv_heads * n_chunks, [&](int64_t task, int thread) {
    const int64_t head = task / n_chunks;
    // Late chunks see most keys: long tasks first leaves the short ones to even out the end.
    const int64_t token = (n_chunks - 1 - task % n_chunks) * chunk_tokens;
    kernels::AttentionChunk c;
    c.q = args.q.row(token) + head * group * args.head_dim;
    c.q_stride = args.q.stride;
    c.out = args.out.row(token) + head * group * args.head_dim;
    c.out_stride = args.out.stride;
    c.tokens = std::min(chunk_tokens, tokens - token);
    c.group = group;
    c.head_dim = args.head_dim;
    c.scale = args.scale;
    c.format = format;
    c.blocks = args.blocks.data();
    c.head_offset = head * args.head_stride;
    c.scale_offset = head * kKvBlockTokens;
    c.token_stride = args.token_stride;
    c.visible = args.causal ? first_visible + token : args.n_keys;
    c.visible_step = args.causal ? 1 : 0;
    c.scratch = scratch + thread * scratch_floats;
    kernel.attend(c);
  });
}

}  // namespace

void Attention(Compute& compute, const AttentionArgs& args) {
  compute.scratch().Reset();
  Attend(compute, args);
}

void DenseAttention(Compute& compute, ConstMatrix q, ConstMatrix k, ConstMatrix v, int64_t n_heads, int64_t n_kv_heads,
                    int64_t head_dim, float scale, Matrix out) {
  MINICPM_CHECK(k.rows == v.rows && k.cols == n_kv_heads * head_dim && v.cols == k.cols && k.stride == v.stride);
  compute.scratch().Reset();
  const int64_t n_blocks = (k.rows + kKvBlockTokens - 1) / kKvBlockTokens;
  auto* const blocks = compute.scratch().New<KvBlock>(n_blocks);
  for (int64_t b = 0; b < n_blocks; ++b) blocks[b] = {k.row(b * kKvBlockTokens), v.row(b * kKvBlockTokens)};
  AttentionArgs args;
  args.q = q;
  args.out = out;
  args.n_heads = n_heads;
  args.n_kv_heads = n_kv_heads;
  args.head_dim = head_dim;
  args.scale = scale;
  args.token_stride = k.stride;
  args.head_stride = head_dim;
  args.blocks = {blocks, static_cast<size_t>(n_blocks)};
  args.n_keys = k.rows;
  Attend(compute, args);
}

}  // namespace minicpm
