// Tests of attention.h: every table against the scalar one on odd head sizes, partly filled blocks and masks, with
// memory that faults past the last key; and bit equality of a row whatever shares its call.
#include "kernels/attention/attention.h"

#include <memory>

#include "kernels/test_util.h"
#include "tensor/arena.h"

namespace minicpm::kernels {
namespace {

using testing_util::Numbers;
using testing_util::Stored;

class AttentionKernelTest : public testing_util::EveryTable {};

struct Problem {
  int64_t tokens, group, dim, keys;
  KvFormat format;
  bool causal;
};

// One KV head; a block's keys lie `dim + 3` apart and end at a guard.
class Cache {
 public:
  Cache(const Problem& p, Numbers& numbers) : stride(p.dim + 3) {
    for (int64_t first = 0; first < p.keys; first += kKvBlockTokens) {
      const int64_t n = std::min(kKvBlockTokens, p.keys - first);
      const int64_t elements = (n - 1) * stride + p.dim;
      for (int side = 0; side < 2; ++side) {
        if (p.format == KvFormat::kI8) {
          AddBytes(elements, numbers);
        } else {
          const DType dtype = p.format == KvFormat::kF16 ? DType::kF16 : DType::kF32;
          parts_.push_back(std::make_unique<Stored>(numbers.Many(elements), dtype, Shape{elements}));
        }
      }
      if (p.format == KvFormat::kI8) {
        const size_t at = bytes_.size() - 2;
        blocks.push_back({bytes_[at]->data(), bytes_[at + 1]->data(), scales_[at]->data(), scales_[at + 1]->data()});
      } else {
        blocks.push_back({parts_[parts_.size() - 2]->view.data, parts_.back()->view.data});
      }
    }
  }
  int64_t stride;
  std::vector<KvBlock> blocks;

 private:
  // Scales of tokens that the block does not hold yet are not numbers: they may be read, but must not count.
  void AddBytes(int64_t elements, Numbers& numbers) {
    bytes_.push_back(std::make_unique<testing_util::Guarded>(static_cast<size_t>(elements)));
    for (int64_t i = 0; i < elements; ++i) {
      bytes_.back()->data()[i] =
          static_cast<std::byte>(static_cast<int8_t>(std::clamp(numbers.Next() * 50, -127.f, 127.f)));
    }
    std::vector<float> scales(kKvBlockTokens, std::nanf(""));
    for (int64_t t = 0; t * stride < elements; ++t) scales[static_cast<size_t>(t)] = 0.02f + 0.001f * numbers.Next();
    scales_.push_back(std::make_unique<testing_util::GuardedFloats>(scales));
  }
  std::vector<std::unique_ptr<Stored>> parts_;
  std::vector<std::unique_ptr<testing_util::Guarded>> bytes_;
  std::vector<std::unique_ptr<testing_util::GuardedFloats>> scales_;
};

void Attend(const KernelTable& table, const Problem& p, const Cache& cache, const std::vector<float>& q, int64_t token,
            int64_t tokens, std::vector<float>& out) {
  const int64_t width = p.group * p.dim;
  AttentionChunk c{};
  c.q = q.data() + token * width;
  c.q_stride = width;
  c.out = out.data() + token * width;
  c.out_stride = width;
  c.tokens = tokens;
  c.group = p.group;
  c.head_dim = p.dim;
  c.scale = 1.0f / std::sqrt(static_cast<float>(p.dim));
  c.format = p.format;
  c.blocks = cache.blocks.data();
  c.token_stride = cache.stride;
  c.visible = p.causal ? p.keys - p.tokens + 1 + token : p.keys;
  c.visible_step = p.causal ? 1 : 0;
  const auto floats = static_cast<size_t>(table.attention->scratch_floats(tokens * p.group, p.dim));
  const AlignedBytes scratch = AllocateAligned(floats * sizeof(float));
  c.scratch = reinterpret_cast<float*>(scratch.get());
  table.attention->attend(c);
}

std::vector<Problem> Problems() {
  std::vector<Problem> problems;
  for (const auto& [tokens, group, dim, keys] : {std::array<int64_t, 4>{1, 1, 1, 1},
                                                 {1, 7, 128, 70},
                                                 {1, 4, 72, 64},
                                                 {2, 3, 5, 9},
                                                 {3, 2, 8, 65},
                                                 {7, 1, 33, 129},
                                                 {8, 1, 16, 63},
                                                 {9, 4, 24, 130},
                                                 {30, 1, 72, 100},
                                                 {5, 7, 17, 66},
                                                 {13, 2, 40, 13}}) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kI8}) {
      for (const bool causal : {false, true}) problems.push_back({tokens, group, dim, keys, format, causal});
    }
  }
  return problems;
}

std::string Describe(const Problem& p) {
  return "tokens " + std::to_string(p.tokens) + " group " + std::to_string(p.group) + " dim " + std::to_string(p.dim) +
         " keys " + std::to_string(p.keys) +
         (p.format == KvFormat::kF16  ? " f16"
          : p.format == KvFormat::kI8 ? " int8"
                                      : " f32") +
         (p.causal ? " causal" : "");
}

TEST_P(AttentionKernelTest, AgreesWithScalar) {
  for (const Problem& p : Problems()) {
    Numbers numbers(static_cast<uint64_t>(p.dim + p.keys));
    const Cache cache(p, numbers);
    const std::vector<float> q = numbers.Many(p.tokens * p.group * p.dim);
    std::vector<float> expected(q.size());
    std::vector<float> out(q.size());
    Attend(testing_util::ScalarTable(), p, cache, q, 0, p.tokens, expected);
    Attend(table(), p, cache, q, 0, p.tokens, out);
    for (size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(out[i], expected[i], 3e-6) << Describe(p) << " at " << i;
  }
}

TEST_P(AttentionKernelTest, RowsDoNotDependOnTheirCall) {
  for (const Problem& p : Problems()) {
    Numbers numbers(static_cast<uint64_t>(p.dim + p.keys));
    const Cache cache(p, numbers);
    const std::vector<float> q = numbers.Many(p.tokens * p.group * p.dim);
    std::vector<float> whole(q.size());
    Attend(table(), p, cache, q, 0, p.tokens, whole);
    for (const int64_t step : {1, 2, 5}) {
      std::vector<float> out(q.size());
      for (int64_t t = 0; t < p.tokens; t += step) Attend(table(), p, cache, q, t, std::min(step, p.tokens - t), out);
      ASSERT_EQ(std::memcmp(out.data(), whole.data(), out.size() * sizeof(float)), 0)
          << Describe(p) << " step " << step;
    }
  }
}

// A poisoned value that a row may not see must not reach it, not even as 0 * infinity.
TEST_P(AttentionKernelTest, UnseenKeysDoNotCount) {
  const Problem p{12, 1, 24, 20, KvFormat::kF32, true};
  Numbers numbers(3);
  const Cache cache(p, numbers);
  const std::vector<float> q = numbers.Many(p.tokens * p.dim);
  std::vector<float> before(q.size());
  Attend(table(), p, cache, q, 0, p.tokens, before);
  auto* last_key = const_cast<float*>(static_cast<const float*>(cache.blocks[0].keys)) + 19 * cache.stride;
  auto* last_value = const_cast<float*>(static_cast<const float*>(cache.blocks[0].values)) + 19 * cache.stride;
  for (int64_t d = 0; d < p.dim; ++d) last_key[d] = last_value[d] = INFINITY;
  std::vector<float> after(q.size());
  Attend(table(), p, cache, q, 0, p.tokens, after);
  const auto seen_by_last_only = static_cast<size_t>(11 * p.dim);
  EXPECT_EQ(std::memcmp(before.data(), after.data(), seen_by_last_only * sizeof(float)), 0);
  EXPECT_TRUE(std::isnan(after.back()));
}

INSTANTIATE_TEST_SUITE_P(Roster, AttentionKernelTest, testing::ValuesIn(testing_util::RunnableTables()),
                         testing_util::TableName);

}  // namespace
}  // namespace minicpm::kernels
