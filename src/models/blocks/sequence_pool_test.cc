// Tests of SequencePool: reservation, sharing after Fork, copy on write, rewinding; and a small recurrent layer that
// lives only here to prove snapshots.
#include "models/blocks/sequence_pool.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "gtest/gtest.h"
#include "quant/int8_row.h"

namespace minicpm {
namespace {

SequenceLayout SmallLayout(DType dtype = DType::kF32) {
  SequenceLayout layout;
  layout.n_kv_layers = 2;
  layout.n_kv_heads = 3;
  layout.head_dim = 5;
  layout.kv_dtype = dtype;
  return layout;
}

// A value that tells sequence, layer, position, head and column apart.
float Mark(int tag, int64_t layer, int64_t p, int64_t c, bool value) {
  return static_cast<float>(tag * 1000 + layer * 500 + p) + static_cast<float>(c) / 32.0f + (value ? 0.5f : 0.0f);
}

void Feed(SequencePool& pool, SequencePool::Id id, int64_t n, int tag) {
  ASSERT_TRUE(pool.Prepare(id, n).has_value());
  const int64_t width = pool.layout().n_kv_heads * pool.layout().head_dim;
  std::vector<float> k(static_cast<size_t>(n * width));
  std::vector<float> v(k.size());
  const int64_t first = pool.length(id);
  for (int64_t layer = 0; layer < pool.layout().n_kv_layers; ++layer) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        k[static_cast<size_t>(i * width + c)] = Mark(tag, layer, first + i, c, false);
        v[static_cast<size_t>(i * width + c)] = Mark(tag, layer, first + i, c, true);
      }
    }
    pool.Write(id, layer, first, {k.data(), n, width}, {v.data(), n, width});
  }
  pool.Advance(id, n);
}

// 8-bit rows: bytes and scale of position p, all heads.
void ExpectHoldsBytes(const SequencePool& pool, const KvBlock& b, int64_t layer, int64_t p, int tag) {
  const int64_t hd = pool.layout().head_dim;
  for (int64_t h = 0; h < pool.layout().n_kv_heads; ++h) {
    for (const bool value : {false, true}) {
      std::vector<float> row;
      for (int64_t d = 0; d < hd; ++d) row.push_back(Mark(tag, layer, p, h * hd + d, value));
      std::vector<int8_t> expected(row.size());
      const float scale = quant::EncodeInt8Row(row, expected.data());
      const auto* const held = static_cast<const int8_t*>(value ? b.values : b.keys) + h * pool.head_stride() +
                               p % kKvBlockTokens * pool.token_stride();
      ASSERT_EQ((value ? b.value_scales : b.key_scales)[h * kKvBlockTokens + p % kKvBlockTokens], scale) << p;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), held)) << p;
    }
  }
}

void ExpectHolds(const SequencePool& pool, SequencePool::Id id, int64_t begin, int64_t end, int tag) {
  const int64_t hd = pool.layout().head_dim;
  std::vector<KvBlock> blocks(static_cast<size_t>((end + 63) / 64));
  for (int64_t layer = 0; layer < pool.layout().n_kv_layers; ++layer) {
    pool.Blocks(id, layer, end, blocks.data());
    for (int64_t p = begin; p < end; ++p) {
      if (pool.layout().kv_dtype == DType::kI8) {
        ExpectHoldsBytes(pool, blocks[static_cast<size_t>(p / 64)], layer, p, tag);
        continue;
      }
      for (int64_t c = 0; c < pool.layout().n_kv_heads * hd; ++c) {
        const int64_t at = (c / hd) * pool.head_stride() + (p % 64) * pool.token_stride() + c % hd;
        const KvBlock& b = blocks[static_cast<size_t>(p / 64)];
        const bool f16 = pool.layout().kv_dtype == DType::kF16;
        const auto load = [&](const void* data) {
          return f16 ? F16ToF32(static_cast<const uint16_t*>(data)[at]) : static_cast<const float*>(data)[at];
        };
        const auto stored = [&](float x) { return f16 ? F16ToF32(F32ToF16(x)) : x; };
        ASSERT_EQ(load(b.keys), stored(Mark(tag, layer, p, c, false))) << p << " " << c;
        ASSERT_EQ(load(b.values), stored(Mark(tag, layer, p, c, true))) << p << " " << c;
      }
    }
  }
}

TEST(SequencePool, KeepsWhatIsWrittenInEveryFormat) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    SequencePool pool(SmallLayout(dtype), 256);
    const auto a = pool.New(150).value();
    for (int64_t left = 150, n = 1; left > 0; left -= n) {
      n = std::min<int64_t>(left, n * 2 + 1);
      Feed(pool, a, n, 1);
    }
    ExpectHolds(pool, a, 0, 150, 1);
    EXPECT_FALSE(pool.Prepare(a, 1).has_value());  // the context is full
  }
}

TEST(SequencePool, ReservesTheWholeContextAtOnce) {
  SequencePool pool(SmallLayout(), 256);
  const auto a = pool.New(130);  // 3 blocks of 4
  ASSERT_TRUE(a.has_value());
  const auto b = pool.New(65);  // 2 blocks
  ASSERT_FALSE(b.has_value());
  EXPECT_EQ(b.error().code, ErrorCode::kResourceExhausted);
  pool.Drop(*a);
  EXPECT_EQ(pool.free_blocks(), 4);
  EXPECT_TRUE(pool.New(256).has_value());
}

TEST(SequencePool, EightBitsTakeHalfOfSixteen) {
  SequenceLayout layout = SmallLayout(DType::kI8);
  layout.head_dim = 128;
  const uint64_t eight = layout.block_bytes();
  layout.kv_dtype = DType::kF16;
  EXPECT_LT(static_cast<double>(eight), 0.52 * static_cast<double>(layout.block_bytes()));
}

class SequencePoolFormats : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, SequencePoolFormats, testing::Values(DType::kF32, DType::kF16, DType::kI8),
                         [](const auto& dtype) { return NameOf(dtype.param); });

TEST_P(SequencePoolFormats, ForkSharesFullBlocksAndNeverWritesIntoThem) {
  SequencePool pool(SmallLayout(GetParam()), 640);
  const auto a = pool.New(200).value();
  Feed(pool, a, 130, 1);
  const int64_t before = pool.free_blocks();
  const auto b = pool.Fork(a).value();
  EXPECT_EQ(before - pool.free_blocks(), 2);  // the partly filled block and the one after it, not the two full ones
  Feed(pool, a, 20, 1);
  Feed(pool, b, 20, 2);
  ExpectHolds(pool, a, 0, 150, 1);
  ExpectHolds(pool, b, 0, 130, 1);
  ExpectHolds(pool, b, 130, 150, 2);
  // Back into a shared block: the other sequence must not notice.
  EXPECT_EQ(pool.Rewind(b, 50), 50);
  Feed(pool, b, 40, 3);
  ExpectHolds(pool, a, 0, 150, 1);
  ExpectHolds(pool, b, 0, 50, 1);
  ExpectHolds(pool, b, 50, 90, 3);
  pool.Drop(a);
  ExpectHolds(pool, b, 0, 50, 1);
  pool.Drop(b);
  EXPECT_EQ(pool.free_blocks(), 10);
}

// The layer: h = decay * h + x, one state of `kWidth` floats; a step is cut where a snapshot is due.
constexpr int64_t kWidth = 3;
float Input(int64_t position, int64_t c) { return std::sin(static_cast<float>(position * 7 + c)); }

void FeedRecurrent(SequencePool& pool, SequencePool::Id id, int64_t n) {
  while (n > 0) {
    const int64_t step = std::min(n, pool.PositionsToSnapshot(id));
    ASSERT_TRUE(pool.Prepare(id, step).has_value());
    const int64_t first = pool.length(id);
    const std::span<float> h = pool.Recurrent(id, 1);
    for (int64_t i = 0; i < step; ++i) {
      for (int64_t c = 0; c < kWidth; ++c)
        h[static_cast<size_t>(c)] = 0.9f * h[static_cast<size_t>(c)] + Input(first + i, c);
    }
    pool.Advance(id, step);
    n -= step;
  }
}

std::vector<float> StateAfter(int64_t n) {
  std::vector<float> h(kWidth, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < kWidth; ++c) h[static_cast<size_t>(c)] = 0.9f * h[static_cast<size_t>(c)] + Input(i, c);
  }
  return h;
}

std::vector<float> StateOf(SequencePool& pool, SequencePool::Id id) {
  const auto s = pool.Recurrent(id, 1);
  return {s.begin(), s.end()};
}

TEST(SequencePool, RecurrentLayersGoBackToSnapshotsAndGiveTheSameStateAgain) {
  SequenceLayout layout = SmallLayout();
  layout.recurrent_floats = {2, kWidth};
  SequencePool pool(layout, 2048);
  const auto a = pool.New(1000).value();
  FeedRecurrent(pool, a, 100);
  pool.Mark(a);  // end of a turn
  FeedRecurrent(pool, a, 500);
  EXPECT_EQ(StateOf(pool, a), StateAfter(600));

  EXPECT_EQ(pool.Rewind(a, 599), 512);  // the automatic restore point
  EXPECT_EQ(StateOf(pool, a), StateAfter(512));
  FeedRecurrent(pool, a, 88);
  EXPECT_EQ(StateOf(pool, a), StateAfter(600));

  EXPECT_EQ(pool.Rewind(a, 200), 100);  // the marked one
  EXPECT_EQ(StateOf(pool, a), StateAfter(100));
  const auto b = pool.Fork(a).value();
  FeedRecurrent(pool, b, 50);
  EXPECT_EQ(StateOf(pool, a), StateAfter(100));
  EXPECT_EQ(StateOf(pool, b), StateAfter(150));

  EXPECT_EQ(pool.Rewind(a, 99), 0);  // before the first restore point: start again
  EXPECT_EQ(StateOf(pool, a), StateAfter(0));
}

TEST(SequencePool, KeepsAFewRestorePointsSpreadOut) {
  SequenceLayout layout = SmallLayout();
  layout.recurrent_floats = {2, kWidth};
  layout.snapshot_every = 10;
  layout.max_snapshots = 4;
  SequencePool pool(layout, 2048);
  const auto a = pool.New(1000).value();
  FeedRecurrent(pool, a, 203);
  pool.Mark(a);
  FeedRecurrent(pool, a, 4);
  EXPECT_EQ(pool.Rewind(a, 206), 203);  // the latest always stays
  EXPECT_EQ(StateOf(pool, a), StateAfter(203));
  int n = 1;
  for (int64_t at = 203; (at = pool.Rewind(a, at - 1)) > 0; ++n) {
    EXPECT_EQ(StateOf(pool, a), StateAfter(at));
    EXPECT_EQ(at % 10, 0);
  }
  EXPECT_EQ(n, 4);
  EXPECT_EQ(layout.recurrent_bytes(5), 2u * (2 + kWidth) * sizeof(float));
  EXPECT_EQ(layout.recurrent_bytes(1000), 5u * (2 + kWidth) * sizeof(float));
}

TEST(SequencePool, KeyValueLayersRewindAnywhere) {
  SequencePool pool(SmallLayout(), 128);
  const auto a = pool.New(100).value();
  Feed(pool, a, 100, 1);
  EXPECT_EQ(pool.Rewind(a, 37), 37);
  EXPECT_EQ(pool.Rewind(a, 90), 37);  // never forward
  Feed(pool, a, 20, 2);
  ExpectHolds(pool, a, 0, 37, 1);
  ExpectHolds(pool, a, 37, 57, 2);
}

}  // namespace
}  // namespace minicpm
