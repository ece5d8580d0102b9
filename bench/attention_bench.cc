// Attention on the models' shapes: the vision tower and prefill against the float32 limit, decoding against the
// streaming read.
#include <cmath>
#include <string>
#include <vector>

#include "base/half.h"
#include "limits.h"
#include "ops/attention.h"
#include "ops/packed_attention.h"

namespace minicpm::bench {
namespace {

float Noise(uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ull;
  return static_cast<float>(static_cast<uint32_t>(i >> 32)) / 1431655765.0f - 1.5f;
}

std::vector<float> NoiseFloats(int64_t n, uint64_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i)] = Noise(static_cast<uint64_t>(i) + seed);
  return v;
}

// All patches of one view look at each other.
void Vision(benchmark::State& state, int64_t patches, int64_t heads, int64_t dim) {
  const int64_t width = heads * dim;
  const std::vector<float> q = NoiseFloats(patches * width, 1);
  const std::vector<float> k = NoiseFloats(patches * width, 7);
  const std::vector<float> v = NoiseFloats(patches * width, 13);
  std::vector<float> out(q.size());
  RunAgainst(state, Limit::kF32, 4.0 * static_cast<double>(patches * patches * width), [&] {
    DenseAttention(TheCompute(), {q.data(), patches, width}, {k.data(), patches, width}, {v.data(), patches, width},
                   heads, heads, dim, 1.0f / std::sqrt(static_cast<float>(dim)), {out.data(), patches, width});
    benchmark::DoNotOptimize(out.data());
  });
}

// The same with 8-bit queries, keys and values, packing included.
void PackedVision(benchmark::State& state, int64_t patches, int64_t heads, int64_t dim) {
  const int64_t width = heads * dim;
  const std::vector<float> q = NoiseFloats(patches * width, 1);
  const std::vector<float> k = NoiseFloats(patches * width, 7);
  const std::vector<float> v = NoiseFloats(patches * width, 13);
  std::vector<float> out(q.size());
  const AlignedBytes memory = AllocateAligned(static_cast<size_t>(PackedKeysValuesBytes(patches, heads, dim)));
  const PackedKeysValues packed{memory.get(), patches, heads, dim};
  RunAgainst(state, Limit::kF32, 4.0 * static_cast<double>(patches * patches * width), [&] {
    PackKeysValues(TheCompute(), {k.data(), patches, width}, {v.data(), patches, width}, packed);
    PackedAttention(TheCompute(), {q.data(), patches, width}, packed, 1.0f / std::sqrt(static_cast<float>(dim)),
                    {out.data(), patches, width});
    benchmark::DoNotOptimize(out.data());
  });
}

// The last `tokens` of `keys` positions, causal, grouped heads, f16 cache in blocks laid out [head][token][dim].
void Language(benchmark::State& state, Limit limit, int64_t tokens, int64_t keys, int64_t heads, int64_t kv_heads) {
  const int64_t dim = 128;
  const std::vector<float> q = NoiseFloats(tokens * heads * dim, 1);
  std::vector<float> out(q.size());
  const int64_t n_blocks = (keys + kKvBlockTokens - 1) / kKvBlockTokens;
  const int64_t block = kKvBlockTokens * kv_heads * dim;
  std::vector<uint16_t> cache(static_cast<size_t>(2 * n_blocks * block));
  for (size_t i = 0; i < cache.size(); ++i) cache[i] = F32ToF16(Noise(i));
  std::vector<KvBlock> blocks;
  for (int64_t b = 0; b < n_blocks; ++b)
    blocks.push_back({&cache[static_cast<size_t>(2 * b * block)], &cache[static_cast<size_t>((2 * b + 1) * block)]});
  AttentionArgs args;
  args.q = {q.data(), tokens, heads * dim};
  args.out = {out.data(), tokens, heads * dim};
  args.n_heads = heads;
  args.n_kv_heads = kv_heads;
  args.head_dim = dim;
  args.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  args.kv_dtype = DType::kF16;
  args.token_stride = dim;
  args.head_stride = kKvBlockTokens * dim;
  args.blocks = blocks;
  args.n_keys = keys;
  args.causal = true;
  args.first_position = keys - tokens;
  const double pairs = static_cast<double>(tokens) * static_cast<double>(keys - tokens) +
                       static_cast<double>(tokens) * static_cast<double>(tokens + 1) / 2;
  const double units = limit == Limit::kF32 ? 4.0 * pairs * static_cast<double>(heads * dim)
                                            : 4.0 * static_cast<double>(keys * kv_heads * dim);
  RunAgainst(state, limit, units, [&] {
    Attention(TheCompute(), args);
    benchmark::DoNotOptimize(out.data());
  });
}

template <class Body>
void Add(const std::string& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(15);
}

const bool kRegistered = [] {
  Add("vision/1024x16x72", [](benchmark::State& s) { Vision(s, 1024, 16, 72); });
  Add("vision8/1024x16x72", [](benchmark::State& s) { PackedVision(s, 1024, 16, 72); });
  Add("vision/4900x16x72", [](benchmark::State& s) { Vision(s, 4900, 16, 72); });
  Add("prefill/512@512/32:8", [](benchmark::State& s) { Language(s, Limit::kF32, 512, 512, 32, 8); });
  Add("prefill/512@4096/32:8", [](benchmark::State& s) { Language(s, Limit::kF32, 512, 4096, 32, 8); });
  Add("prefill/512@2048/28:4", [](benchmark::State& s) { Language(s, Limit::kF32, 512, 2048, 28, 4); });
  Add("decode/1@16384/32:8", [](benchmark::State& s) { Language(s, Limit::kRead, 1, 16384, 32, 8); });
  Add("decode/1@16384/28:4", [](benchmark::State& s) { Language(s, Limit::kRead, 1, 16384, 28, 4); });
  Add("decode/4@16384/32:8", [](benchmark::State& s) { Language(s, Limit::kRead, 4, 16384, 32, 8); });
  return true;
}();

}  // namespace
}  // namespace minicpm::bench
