// AVX2 form of qmatmul.h: unsigned weights times signed activations, a run of columns added in 16 bits from a start
// that makes the sum a centred one, then one multiply-add widens it to 32 bits: with ones (INT8) or with the sub-scale
// (INT4), which therefore costs nothing.
//
// Registers hold the 16-bit sums of a run (6 rows x 16 rows of w); the 32-bit sums of a block live in the first-level
// cache, where they are touched once per run. g++ 12 moves 16-bit additions down to their first use and spills the
// products meanwhile; an empty asm after each step (Keep) forbids that.
#include <immintrin.h>

#include "kernels/qmatmul/qmatmul.h"
#include "kernels/qmatmul/quantize_avx2.h"

namespace minicpm::kernels {
namespace {

using Ints = __m256i;

inline Ints LoadInts(const void* p) { return _mm256_load_si256(static_cast<const Ints*>(p)); }
inline Ints Broadcast4(const void* p) {
  int32_t v;
  std::memcpy(&v, p, sizeof(v));
  return _mm256_set1_epi32(v);
}
inline void Keep(Ints& v) { asm volatile("" : "+x"(v)); }

// What the formats have in common for quantize.
template <int64_t kRunColumns, int64_t kBlockColumns, int kShift>
struct Format {
  static constexpr int64_t kRun = kRunColumns;
  static constexpr int64_t kBlock = kBlockColumns;
  // - 2^kShift times the sums, modulo 2^16, side by side.
  static void PutStart(__m128i pairs, int64_t run, int16_t* start) {
    const __m128i v = _mm_slli_epi32(_mm_sub_epi32(_mm_setzero_si128(), pairs), kShift);
    const int32_t both = _mm_cvtsi128_si32(_mm_shufflelo_epi16(v, 0x08));
    std::memcpy(start + 2 * run, &both, sizeof(both));
  }
};

struct Int8 : Format<kInt8Activation.run, kInt8Activation.block, 6> {
  static_assert(kInt8Activation.zero_point == 64);
  static constexpr int64_t kChunkBytes = kUnpackColumns * kPanelRows;
  static const std::byte* Run(const std::byte* panel, int64_t run) { return panel + 64 + run * 256; }

  // The factors of the 32-bit sums of rows 0-7 and 8-15.
  static void Factors(const std::byte*, int64_t, Ints& low, Ints& high) { low = high = _mm256_set1_epi16(1); }
};

struct Int4 : Format<kInt4Activation.run, kInt4Activation.block, 3> {
  static_assert(kInt4Activation.zero_point == 8);
  static constexpr int64_t kBlockBytes = 1088;
  static constexpr int64_t kChunkBytes = kUnpackColumns / 128 * kBlockBytes;
  static const std::byte* Run(const std::byte* panel, int64_t run) {
    return panel + 128 + run / 4 * kBlockBytes + run % 4 * 256;
  }
  static void Factors(const std::byte* panel, int64_t run, Ints& low, Ints& high) {
    const std::byte* const t = panel + 64 + run / 4 * kBlockBytes + run % 4 * 16;
    const Ints wide = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(t)));
    low = _mm256_unpacklo_epi16(wide, wide);
    high = _mm256_unpackhi_epi16(wide, wide);
  }
};

// ---- few rows: weights straight from memory, two panels side by side

enum class Ahead { kNone, kOnce, kKeep };  // weights are in the cache, are needed once, are needed again
constexpr int64_t kAheadBytes = 1024;

template <Ahead kAhead>
inline void Prefetch(const std::byte* p) {
  if (kAhead == Ahead::kOnce) _mm_prefetch(reinterpret_cast<const char*>(p + kAheadBytes), _MM_HINT_NTA);
  if (kAhead == Ahead::kKeep) _mm_prefetch(reinterpret_cast<const char*>(p + kAheadBytes), _MM_HINT_T0);
}

// 4 columns: low, high += w x.
template <int M>
inline void FewStep(Ints w_low, Ints w_high, const int8_t* x, int64_t x_stride, Ints (&low)[M], Ints (&high)[M]) {
  Keep(w_low);
  Keep(w_high);
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
    Ints v = Broadcast4(x + m * x_stride);
    Keep(v);
    low[m] = _mm256_add_epi16(low[m], _mm256_maddubs_epi16(w_low, v));
    Keep(low[m]);
    high[m] = _mm256_add_epi16(high[m], _mm256_maddubs_epi16(w_high, v));
    Keep(high[m]);
  }
}

// The products of one run of columns.
template <int M, Ahead kAhead>
inline void FewRun(Int8, const std::byte* w, const int8_t* x, int64_t x_stride, Ints (&low)[M], Ints (&high)[M]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Prefetch<kAhead>(w + 64 * i);
    FewStep<M>(LoadInts(w + 64 * i), LoadInts(w + 64 * i + 32), x + 4 * i, x_stride, low, high);
  }
}

template <int M, Ahead kAhead>
inline void FewRun(Int4, const std::byte* w, const int8_t* x, int64_t x_stride, Ints (&low)[M], Ints (&high)[M]) {
  const Ints mask = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Prefetch<kAhead>(w + 64 * i);
    Ints a = LoadInts(w + 64 * i);
    Ints b = LoadInts(w + 64 * i + 32);
    Keep(a);
    Keep(b);
    FewStep<M>(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask), x + 8 * i, x_stride, low, high);
    FewStep<M>(_mm256_and_si256(_mm256_srli_epi16(a, 4), mask), _mm256_and_si256(_mm256_srli_epi16(b, 4), mask),
               x + 8 * i + 4, x_stride, low, high);
  }
}

// What outlives a run, in memory on purpose: registers are for the 16-bit sums.
template <int M, int P>
struct FewSums {
  Ints sum[P][M][2];
  __m256 total[P][M][2];
};

// Ends a block: total += float(sum) * scale, and the sums begin anew.
template <int M, int P>
inline void EndBlock(const float* scale, int64_t scale_stride, FewSums<M, P>& sums) {
  for (int m = 0; m < M; ++m) {
    const __m256 s = _mm256_broadcast_ss(scale + m * scale_stride);
    for (int p = 0; p < P; ++p) {
      for (int h = 0; h < 2; ++h) {
        __m256& total = sums.total[p][m][h];
        total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums.sum[p][m][h]), s, total);
        sums.sum[p][m][h] = _mm256_setzero_si256();
      }
    }
  }
}

// M rows of x against P panels, c[p][m * c_stride + r].
template <class W, int M, int P, Ahead kAhead>
void FewPanels(const QuantizedRows& x, const std::byte* const (&panel)[P], int64_t padded_k, float* const (&c)[P],
               int64_t c_stride) {
  FewSums<M, P> storage;
  std::memset(&storage, 0, sizeof(storage));
  FewSums<M, P>* sums = &storage;
  asm volatile("" : "+r"(sums) : : "memory");
  QuantizedRows at = x;
  const int64_t runs = padded_k / W::kRun;
  constexpr int64_t kRuns = W::kBlock / W::kRun;
  for (int64_t first = 0; first < runs; first += kRuns) {
    const int64_t end = runs - first < kRuns ? runs : first + kRuns;
    for (int64_t run = first; run < end; ++run) {
#pragma GCC unroll 2
      for (int p = 0; p < P; ++p) {
        Ints low[M];
        Ints high[M];
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) low[m] = high[m] = Broadcast4(at.start + m * at.start_stride);
        FewRun<M, kAhead>(W{}, W::Run(panel[p], run), at.q, at.q_stride, low, high);
        Ints t_low;
        Ints t_high;
        W::Factors(panel[p], run, t_low, t_high);
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) {
          Ints(&sum)[2] = sums->sum[p][m];
          sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(low[m], t_low));
          sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(high[m], t_high));
        }
      }
      at.q += W::kRun;
      at.start += 2;
    }
    EndBlock<M, P>(at.scale++, at.scale_stride, *sums);
  }
  for (int p = 0; p < P; ++p) {
    const auto* row_scale = reinterpret_cast<const float*>(panel[p]);
    for (int m = 0; m < M; ++m) {
      const __m256(&total)[2] = sums->total[p][m];
      _mm256_storeu_ps(c[p] + m * c_stride, _mm256_mul_ps(total[0], _mm256_load_ps(row_scale)));
      _mm256_storeu_ps(c[p] + m * c_stride + 8, _mm256_mul_ps(total[1], _mm256_load_ps(row_scale + 8)));
    }
  }
}

// Rows [first, ...) as rows of their own.
inline QuantizedRows RowsFrom(const QuantizedRows& x, int64_t first) {
  QuantizedRows rows = x;
  rows.q += first * x.q_stride;
  rows.start += first * x.start_stride;
  rows.scale += first * x.scale_stride;
  return rows;
}

constexpr int64_t kFewRows = 4;

template <class W, int P, Ahead kAhead>
inline void FewOf(const QuantizedRows& x, int64_t m_rows, const std::byte* const (&panel)[P], int64_t padded_k,
                  float* const (&c)[P], int64_t c_stride) {
  switch (m_rows) {
    case 1:
      return FewPanels<W, 1, P, kAhead>(x, panel, padded_k, c, c_stride);
    case 2:
      return FewPanels<W, 2, P, kAhead>(x, panel, padded_k, c, c_stride);
    case 3:
      return FewPanels<W, 3, P, kAhead>(x, panel, padded_k, c, c_stride);
    default:
      return FewPanels<W, 4, P, kAhead>(x, panel, padded_k, c, c_stride);
  }
}

// All rows against P panels, four at a time: the first four bring the weights into the cache for the others.
template <class W, int P>
inline void FewGroups(const QuantizedRows& x, int64_t m_rows, const std::byte* const (&panel)[P], int64_t padded_k,
                      float* const (&c)[P], int64_t c_stride) {
  if (m_rows <= kFewRows) return FewOf<W, P, Ahead::kOnce>(x, m_rows, panel, padded_k, c, c_stride);
  FewOf<W, P, Ahead::kKeep>(x, kFewRows, panel, padded_k, c, c_stride);
  for (int64_t m = kFewRows; m < m_rows; m += kFewRows) {
    float* out[P];
    for (int p = 0; p < P; ++p) out[p] = c[p] + m * c_stride;
    FewOf<W, P, Ahead::kNone>(RowsFrom(x, m), m_rows - m < kFewRows ? m_rows - m : kFewRows, panel, padded_k, out,
                              c_stride);
  }
}

template <class W>
void Few(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
         int64_t padded_k, float* c, int64_t c_stride) {
  const int64_t half = n_panels / 2;
  for (int64_t p = 0; p < half; ++p) {
    const std::byte* const panel[2] = {panels + p * panel_bytes, panels + (half + p) * panel_bytes};
    float* const out[2] = {c + p * kPanelRows, c + (half + p) * kPanelRows};
    FewGroups<W, 2>(x, m_rows, panel, padded_k, out, c_stride);
  }
  if (n_panels % 2 != 0) {
    const std::byte* const panel[1] = {panels + (n_panels - 1) * panel_bytes};
    float* const out[1] = {c + (n_panels - 1) * kPanelRows};
    FewGroups<W, 1>(x, m_rows, panel, padded_k, out, c_stride);
  }
}

// ---- many rows: 1024 columns of a panel at a time, as bytes in the first-level cache

constexpr int kTileRows = 6;
constexpr int64_t kChunkRuns4 = kUnpackColumns / Int4::kRun;
// scratch: unpacked weights, factors of INT4 (64 bytes a run), 32-bit sums of a tile
constexpr int64_t kFactorsAt = kUnpackColumns * kPanelRows;
constexpr int64_t kSumsAt = kFactorsAt + kChunkRuns4 * 64;
constexpr int64_t kScratchBytes = kSumsAt + kTileRows * 64;

// INT4: `runs` runs from the first of `panel` as bytes and 16-bit factors.
void Unpack(const std::byte* panel, int64_t first, int64_t runs, std::byte* scratch) {
  const Ints mask = _mm256_set1_epi8(15);
  auto* out = reinterpret_cast<Ints*>(scratch);
  auto* factors = reinterpret_cast<Ints*>(scratch + kFactorsAt);
  for (int64_t run = first; run < first + runs; ++run) {
    const std::byte* const w = Int4::Run(panel, run);
    for (int i = 0; i < 4; ++i, out += 4) {
      const Ints a = LoadInts(w + 64 * i);
      const Ints b = LoadInts(w + 64 * i + 32);
      _mm256_store_si256(out, _mm256_and_si256(a, mask));
      _mm256_store_si256(out + 1, _mm256_and_si256(b, mask));
      _mm256_store_si256(out + 2, _mm256_and_si256(_mm256_srli_epi16(a, 4), mask));
      _mm256_store_si256(out + 3, _mm256_and_si256(_mm256_srli_epi16(b, 4), mask));
    }
    Ints low;
    Ints high;
    Int4::Factors(panel, run, low, high);
    _mm256_store_si256(factors++, low);
    _mm256_store_si256(factors++, high);
  }
}

// What a tile reads and writes: T rows of x from some column on, and 16 floats each of c.
struct Tile {
  const int8_t* q;
  int64_t q_stride;
  const int16_t* start;
  int64_t start_stride;
  const float* scale;
  int64_t scale_stride;
  float* c;
  int64_t c_stride;
};

// Rows 0, 1, 2 and 3, 4, 5 from two bases, as far apart as the processor's addressing reaches: one base for each row
// would be more than there are registers. The compiler must not know that the bases are related.
template <class T>
struct Bases {
  Bases(const T* first, int64_t row_stride) : base{first, first + 3 * row_stride}, stride(row_stride) {
    asm volatile("" : "+r"(base[0]), "+r"(base[1]));
  }
  const T* Row(int t) const { return base[t / 3] + t % 3 * stride; }
  void Advance(int64_t n) {
    base[0] += n;
    base[1] += n;
  }
  const T* base[2];
  int64_t stride;
};

// The 16-bit sums of one run.
template <class W, int T>
inline void TileRun(const Bases<int8_t>& q, const Bases<int16_t>& start, const std::byte* w, Ints (&low)[T],
                    Ints (&high)[T]) {
#pragma GCC unroll 8
  for (int i = 0; i < W::kRun / 4; ++i) {
    Ints w_low = LoadInts(w + 64 * i);
    Ints w_high = LoadInts(w + 64 * i + 32);
    Keep(w_low);
    Keep(w_high);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const Ints v = Broadcast4(q.Row(t) + 4 * i);
      if (i == 0) low[t] = high[t] = Broadcast4(start.Row(t));
      low[t] = _mm256_add_epi16(low[t], _mm256_maddubs_epi16(w_low, v));
      Keep(low[t]);
      high[t] = _mm256_add_epi16(high[t], _mm256_maddubs_epi16(w_high, v));
      Keep(high[t]);
    }
  }
}

// c += one chunk of `runs` runs. w: bytes; factors: of INT4.
template <class W, int T>
void TileChunk(const Tile& x, int64_t runs, const std::byte* w, const std::byte* factors, Ints* sum) {
  constexpr int64_t kRuns = W::kBlock / W::kRun;
  Bases<int8_t> q(x.q, x.q_stride);
  Bases<int16_t> start(x.start, x.start_stride);
  const float* scale = x.scale;
  for (int64_t first = 0; first < runs; first += kRuns) {
    const int64_t end = runs - first < kRuns ? runs : first + kRuns;
    for (int t = 0; t < 2 * T; ++t) _mm256_store_si256(sum + t, _mm256_setzero_si256());
    for (int64_t run = first; run < end; ++run) {
      Ints low[T];
      Ints high[T];
      TileRun<W, T>(q, start, w, low, high);
      q.Advance(W::kRun);
      start.Advance(2);
      w += W::kRun * kPanelRows;
      const Ints t_low = LoadInts(factors);
      const Ints t_high = LoadInts(factors + 32);
      if constexpr (W::kRun == Int4::kRun) factors += 64;
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        _mm256_store_si256(sum + 2 * t, _mm256_add_epi32(LoadInts(sum + 2 * t), _mm256_madd_epi16(low[t], t_low)));
        _mm256_store_si256(sum + 2 * t + 1,
                           _mm256_add_epi32(LoadInts(sum + 2 * t + 1), _mm256_madd_epi16(high[t], t_high)));
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256 s = _mm256_broadcast_ss(scale + t * x.scale_stride);
      float* const c = x.c + t * x.c_stride;
      _mm256_store_ps(c, _mm256_fmadd_ps(_mm256_cvtepi32_ps(LoadInts(sum + 2 * t)), s, _mm256_load_ps(c)));
      _mm256_store_ps(c + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(LoadInts(sum + 2 * t + 1)), s, _mm256_load_ps(c + 8)));
    }
    ++scale;
  }
}

template <class W>
inline void TileRows(int64_t rows, const Tile& x, int64_t runs, const std::byte* w, const std::byte* factors,
                     Ints* sum) {
  switch (rows) {
    case 1:
      return TileChunk<W, 1>(x, runs, w, factors, sum);
    case 2:
      return TileChunk<W, 2>(x, runs, w, factors, sum);
    case 3:
      return TileChunk<W, 3>(x, runs, w, factors, sum);
    case 4:
      return TileChunk<W, 4>(x, runs, w, factors, sum);
    case 5:
      return TileChunk<W, 5>(x, runs, w, factors, sum);
    default:
      return TileChunk<W, 6>(x, runs, w, factors, sum);
  }
}

// c += one chunk of columns of one panel, from run `first` on. Meanwhile the weights at `next` come into the
// second-level cache, some for each tile.
template <class W>
void ManyChunk(const QuantizedRows& x, int64_t m_rows, const std::byte* panel, int64_t first, int64_t runs,
               const std::byte* next, float* c, int64_t c_stride, std::byte* scratch) {
  const std::byte* w = W::Run(panel, first);
  if constexpr (W::kRun == Int4::kRun) {
    Unpack(panel, first, runs, scratch);
    w = scratch;
  }
  const int64_t block = first * W::kRun / W::kBlock;
  const int64_t tiles = (m_rows + kTileRows - 1) / kTileRows;
  const int64_t ahead = (W::kChunkBytes / 64 + tiles - 1) / tiles * 64;
  for (int64_t m = 0; m < m_rows; m += kTileRows, next += ahead) {
    for (int64_t i = 0; i < ahead; i += 64) _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T1);
    const Tile tile = {x.q + m * x.q_stride + first * W::kRun,
                       x.q_stride,
                       x.start + m * x.start_stride + 2 * first,
                       x.start_stride,
                       x.scale + m * x.scale_stride + block,
                       x.scale_stride,
                       c + m * c_stride,
                       c_stride};
    TileRows<W>(m_rows - m, tile, runs, w, scratch + kFactorsAt, reinterpret_cast<Ints*>(scratch + kSumsAt));
  }
}

// c times the scales of the rows of w.
void ScaleRows(const std::byte* panel, int64_t m_rows, float* c, int64_t c_stride) {
  const __m256 low = _mm256_load_ps(reinterpret_cast<const float*>(panel));
  const __m256 high = _mm256_load_ps(reinterpret_cast<const float*>(panel) + 8);
  for (int64_t m = 0; m < m_rows; ++m, c += c_stride) {
    _mm256_store_ps(c, _mm256_mul_ps(_mm256_load_ps(c), low));
    _mm256_store_ps(c + 8, _mm256_mul_ps(_mm256_load_ps(c + 8), high));
  }
}

// Some rows at a time: their 1024 columns stay in the second-level cache for all panels.
constexpr int64_t kCachedRows = 192;

template <class W>
void Many(const QuantizedRows& x, int64_t m_rows, const std::byte* panels, int64_t panel_bytes, int64_t n_panels,
          int64_t padded_k, float* c, int64_t c_stride, std::byte* scratch) {
  constexpr int64_t kChunkRuns = kUnpackColumns / W::kRun;
  auto* const ones = reinterpret_cast<Ints*>(scratch + kFactorsAt);  // of INT8
  _mm256_store_si256(ones, _mm256_set1_epi16(1));
  _mm256_store_si256(ones + 1, _mm256_set1_epi16(1));
  const int64_t all_runs = padded_k / W::kRun;
  for (int64_t m = 0; m < m_rows; m += kCachedRows, c += kCachedRows * c_stride) {
    const int64_t rows = m_rows - m < kCachedRows ? m_rows - m : kCachedRows;
    for (int64_t i = 0; i < rows; ++i) {
      std::memset(c + i * c_stride, 0, static_cast<size_t>(n_panels * kPanelRows) * sizeof(float));
    }
    const QuantizedRows some = RowsFrom(x, m);
    for (int64_t first = 0; first < all_runs; first += kChunkRuns) {
      const int64_t runs = all_runs - first < kChunkRuns ? all_runs - first : kChunkRuns;
      for (int64_t p = 0; p < n_panels; ++p) {
        const std::byte* const panel = panels + p * panel_bytes;
        const std::byte* const next =
            p + 1 < n_panels ? W::Run(panel + panel_bytes, first) : W::Run(panels, first + runs);
        ManyChunk<W>(some, rows, panel, first, runs, next, c + p * kPanelRows, c_stride, scratch);
      }
    }
    for (int64_t p = 0; p < n_panels; ++p) ScaleRows(panels + p * panel_bytes, rows, c + p * kPanelRows, c_stride);
  }
}

template <class W>
constexpr PackedMatmulKernels kKernels = {Quantize<W>, Few<W>, Many<W>};

}  // namespace

extern const QMatmulKernels avx2_qmatmul = {32, kScratchBytes, kKernels<Int8>, kKernels<Int4>};

}  // namespace minicpm::kernels
