// Tests of attention.h: against double arithmetic, paged against dense, causal masks, and bit equality of a row over
// chunking and threads.
#include "ops/attention.h"

#include <cmath>

#include "gtest/gtest.h"
#include "ops/test_util.h"
#include "quant/int8_row.h"

namespace minicpm {
namespace {

using testing_util::ExpectWithin;
using testing_util::MakeCompute;
using testing_util::Numbers;
using testing_util::Padded;
using testing_util::SameBits;

struct Shapes {
  int64_t tokens, keys, heads, kv_heads, dim;
};

// Keys and values of all KV heads, [keys, kv_heads * dim], cut into blocks laid out [head][token][dim].
class Paged {
 public:
  Paged(const Shapes& s, DType dtype, Numbers& numbers) : shapes_(s), dtype_(dtype) {
    keys = numbers.Many(s.keys * s.kv_heads * s.dim);
    values = numbers.Many(s.keys * s.kv_heads * s.dim);
    const int64_t n_blocks = (s.keys + kKvBlockTokens - 1) / kKvBlockTokens;
    const size_t block_elements = static_cast<size_t>(kKvBlockTokens * s.kv_heads * s.dim);
    for (int64_t b = 0; b < 2 * n_blocks; ++b) {
      // Never written room holds NaN: it must never be read, or at least never count.
      f32_.emplace_back(block_elements, std::nanf(""));
      f16_.emplace_back(block_elements, uint16_t{0x7e00});
      i8_.emplace_back(block_elements, int8_t{127});
      scales_.emplace_back(static_cast<size_t>(kKvBlockTokens * s.kv_heads), std::nanf(""));
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      Fill(keys, b, static_cast<size_t>(2 * b));
      Fill(values, b, static_cast<size_t>(2 * b + 1));
      const auto k = static_cast<size_t>(2 * b);
      if (dtype == DType::kI8) {
        blocks.push_back({i8_[k].data(), i8_[k + 1].data(), scales_[k].data(), scales_[k + 1].data()});
      } else {
        blocks.push_back(dtype == DType::kF16 ? KvBlock{f16_[k].data(), f16_[k + 1].data()}
                                              : KvBlock{f32_[k].data(), f32_[k + 1].data()});
      }
    }
  }
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<KvBlock> blocks;

 private:
  void Fill(std::vector<float>& source, int64_t block, size_t target) {
    for (int64_t t = 0; t < kKvBlockTokens && block * kKvBlockTokens + t < shapes_.keys; ++t) {
      for (int64_t h = 0; h < shapes_.kv_heads; ++h) {
        const auto row = static_cast<size_t>(h * kKvBlockTokens + t);
        float* const scale = &scales_[target][row];
        const float* const from =
            &source[static_cast<size_t>(((block * kKvBlockTokens + t) * shapes_.kv_heads + h) * shapes_.dim)];
        int8_t* const bytes = &i8_[target][row * static_cast<size_t>(shapes_.dim)];
        *scale = quant::EncodeInt8Row({from, static_cast<size_t>(shapes_.dim)}, bytes);
        for (int64_t d = 0; d < shapes_.dim; ++d) {
          float& v =
              source[static_cast<size_t>(((block * kKvBlockTokens + t) * shapes_.kv_heads + h) * shapes_.dim + d)];
          const auto at = static_cast<size_t>((h * kKvBlockTokens + t) * shapes_.dim + d);
          if (dtype_ == DType::kF16) v = F16ToF32(F32ToF16(v));
          if (dtype_ == DType::kI8) v = static_cast<float>(bytes[d]) * *scale;
          f32_[target][at] = v;
          f16_[target][at] = F32ToF16(v);
        }
      }
    }
  }
  Shapes shapes_;
  DType dtype_;
  std::vector<std::vector<float>> f32_;
  std::vector<std::vector<uint16_t>> f16_;
  std::vector<std::vector<int8_t>> i8_;
  std::vector<std::vector<float>> scales_;
};

std::vector<double> Expected(const Shapes& s, ConstMatrix q, const std::vector<float>& k, const std::vector<float>& v,
                             double scale, bool causal, int64_t first) {
  std::vector<double> out;
  for (int64_t t = 0; t < q.rows; ++t) {
    const int64_t visible = causal ? first + t + 1 : s.keys;
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / (s.heads / s.kv_heads);
      std::vector<double> p(static_cast<size_t>(visible));
      double top = -INFINITY;
      for (int64_t j = 0; j < visible; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < s.dim; ++d) {
          dot +=
              static_cast<double>(q.row(t)[h * s.dim + d]) * k[static_cast<size_t>((j * s.kv_heads + kv) * s.dim + d)];
        }
        p[static_cast<size_t>(j)] = dot * scale;
        top = std::fmax(top, dot * scale);
      }
      double sum = 0;
      for (double& e : p) sum += e = std::exp(e - top);
      for (int64_t d = 0; d < s.dim; ++d) {
        double o = 0;
        for (int64_t j = 0; j < visible; ++j) {
          o += p[static_cast<size_t>(j)] * v[static_cast<size_t>((j * s.kv_heads + kv) * s.dim + d)];
        }
        out.push_back(o / sum);
      }
    }
  }
  return out;
}

AttentionArgs Args(const Shapes& s, const Paged& cache, ConstMatrix q, Matrix out, float scale, DType dtype,
                   bool causal, int64_t first) {
  AttentionArgs a;
  a.q = q;
  a.out = out;
  a.n_heads = s.heads;
  a.n_kv_heads = s.kv_heads;
  a.head_dim = s.dim;
  a.scale = scale;
  a.kv_dtype = dtype;
  a.token_stride = s.dim;
  a.head_stride = kKvBlockTokens * s.dim;
  a.blocks = cache.blocks;
  a.n_keys = s.keys;
  a.causal = causal;
  a.first_position = first;
  return a;
}

class AttentionTest : public testing::TestWithParam<std::string> {};

TEST_P(AttentionTest, AgreesWithDouble) {
  const auto compute = MakeCompute(GetParam(), 2);
  const Shapes cases[] = {{1, 1, 1, 1, 1},     {3, 5, 2, 1, 7},      {10, 64, 2, 2, 72},   {1, 65, 7, 1, 128},
                          {33, 130, 8, 2, 64}, {20, 200, 14, 2, 32}, {100, 100, 4, 4, 24}, {70, 257, 6, 3, 33},
                          {5, 63, 2, 2, 80},   {2, 1000, 4, 1, 16}};
  for (const Shapes& s : cases) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
      for (const bool causal : {false, true}) {
        if (causal && s.tokens > s.keys) continue;
        Numbers numbers(static_cast<uint64_t>(s.dim * 7 + s.keys));
        const Paged cache(s, dtype, numbers);
        Padded q(s.tokens, s.heads * s.dim, 3);
        q.Fill(numbers);
        Padded out(s.tokens, s.heads * s.dim, 5);
        const float scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
        const int64_t first = s.keys - s.tokens;
        Attention(*compute, Args(s, cache, q.view, out.view, scale, dtype, causal, first));
        ExpectWithin(Expected(s, q.view, cache.keys, cache.values, scale, causal, first), out.view, 2e-6,
                     "tokens " + std::to_string(s.tokens) + " keys " + std::to_string(s.keys) + " dim " +
                         std::to_string(s.dim) + " " + NameOf(dtype) + (causal ? " causal" : ""));
      }
    }
  }
}

TEST_P(AttentionTest, LargeScoresStayFinite) {
  const Shapes s{4, 300, 2, 1, 40};
  Numbers numbers(5);
  const Paged cache(s, DType::kF32, numbers);
  Padded q(s.tokens, s.heads * s.dim, 0);
  q.Fill(numbers);
  Padded out(s.tokens, s.heads * s.dim, 0);
  Attention(*MakeCompute(GetParam(), 1), Args(s, cache, q.view, out.view, 20.0f, DType::kF32, false, 0));
  ExpectWithin(Expected(s, q.view, cache.keys, cache.values, 20.0, false, 0), out.view, 1e-4, "scores near 400");
}

TEST_P(AttentionTest, DenseEqualsPaged) {
  const Shapes s{50, 150, 4, 2, 72};
  Numbers numbers(6);
  const Paged cache(s, DType::kF32, numbers);
  Padded q(s.tokens, s.heads * s.dim, 0);
  q.Fill(numbers);
  Padded paged(s.tokens, s.heads * s.dim, 0);
  Padded dense(s.tokens, s.heads * s.dim, 0);
  const auto compute = MakeCompute(GetParam(), 2);
  Attention(*compute, Args(s, cache, q.view, paged.view, 0.2f, DType::kF32, false, 0));
  const int64_t width = s.kv_heads * s.dim;
  DenseAttention(*compute, q.view, {cache.keys.data(), s.keys, width}, {cache.values.data(), s.keys, width}, s.heads,
                 s.kv_heads, s.dim, 0.2f, dense.view);
  EXPECT_TRUE(SameBits(paged.view, dense.view));
}

// Fed whole, in pieces or token by token, on any number of threads: the same bits.
TEST_P(AttentionTest, RowsDependOnNothingElse) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    for (const Shapes& s : {Shapes{150, 150, 7, 1, 72}, Shapes{130, 200, 4, 2, 33}}) {
      Numbers numbers(8);
      const Paged cache(s, dtype, numbers);
      const int64_t before = s.keys - s.tokens;
      Padded q(s.tokens, s.heads * s.dim, 0);
      q.Fill(numbers);
      Padded whole(s.tokens, s.heads * s.dim, 0);
      Attention(*MakeCompute(GetParam(), 1), Args(s, cache, q.view, whole.view, 0.1f, dtype, true, before));
      for (const int threads : {1, 2, 3}) {
        const auto compute = MakeCompute(GetParam(), threads);
        for (const int64_t step : {1, 2, 7, 64, 150}) {
          Padded out(s.tokens, s.heads * s.dim, 1);
          for (int64_t first = 0; first < s.tokens; first += step) {
            const int64_t n = std::min(step, s.tokens - first);
            AttentionArgs a =
                Args(s, cache, q.view.Rows(first, n), out.view.Rows(first, n), 0.1f, dtype, true, before + first);
            a.n_keys = before + first + n;
            Attention(*compute, a);
          }
          EXPECT_TRUE(SameBits(whole.view, out.view))
              << "threads " << threads << " step " << step << " " << NameOf(dtype);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionTest, testing::ValuesIn(testing_util::RunnableIsas()),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace minicpm
