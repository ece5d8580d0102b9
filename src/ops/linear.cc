// Implementation of linear.h for float weights; packed_linear.cc has the quantised ones. Few rows: dot products
// straight from the weights. Many rows: panels of weights are laid out once per thread and every row runs over them.
// Both follow the one order of summation in kernels/matmul/matmul.h.
#include "ops/linear.h"

#include <algorithm>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_plan.h"
#include "kernels/table.h"
#include "ops/elementwise.h"
#include "ops/epilogue.h"
#include "ops/norm.h"
#include "ops/packed_linear.h"

namespace minicpm {
namespace {

using kernels::kLanes;
using kernels::MatmulKernels;
using kernels::SectionPlan;
using kernels::WeightKernels;

// Up to this many rows, reading weights in place beats laying them out.
constexpr int64_t kMostDotRows = 24;
// Bytes of weights in one dot task: stays in the second-level cache for a second group of rows.
constexpr int64_t kDotTaskBytes = int64_t{128} << 10;
// Floats of x laid out at once (18 MiB), and rows that stay in the second-level cache while panels change.
constexpr int64_t kPackedFloats = int64_t{4608} << 10;
constexpr int64_t kLeastPackedRows = 96;
constexpr int64_t kCacheRows = 192;
// Panels that share one pass over x.
constexpr int64_t kGroupPanels = 8;

struct Problem {
  ConstMatrix x;
  const void* w;
  DType dtype;
  int64_t w_stride;
  bool columns;  // w is [K, N]
  int64_t n;
  Epilogue epilogue;

  int64_t k() const { return x.cols; }
  // Address of row r (of column r when `columns`), from inner index k on.
  const void* at(int64_t r, int64_t k) const {
    const int64_t element = columns ? k * w_stride + r : r * w_stride + k;
    return static_cast<const std::byte*>(w) + element * static_cast<int64_t>(SizeOf(dtype));
  }
};

const WeightKernels& For(const MatmulKernels& kernel, DType dtype) {
  MINICPM_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16);
  return dtype == DType::kF32 ? kernel.f32 : dtype == DType::kBF16 ? kernel.bf16 : kernel.f16;
}

void DotProduct(Compute& compute, const Problem& p) {
  const MatmulKernels& kernel = *compute.kernels().matmul;
  const WeightKernels& weights = For(kernel, p.dtype);
  const SectionPlan plan(p.k());
  const int threads = compute.pool().size();
  const int64_t row_bytes = std::max<int64_t>(1, p.k() * static_cast<int64_t>(SizeOf(p.dtype)));
  const int64_t fair = (p.n + 4 * threads - 1) / (4 * threads);
  const int64_t rows = std::clamp<int64_t>(kDotTaskBytes / row_bytes, 4, 512);
  const int64_t task_rows = std::max<int64_t>(4, (std::min(rows, fair) + 3) / 4 * 4);

  const int64_t totals = (p.x.rows * task_rows + 15) / 16 * 16;
  float* const scratch = compute.scratch().New<float>(totals * threads);
  compute.pool().ParallelFor((p.n + task_rows - 1) / task_rows, [&](int64_t task, int thread) {
    const int64_t first = task * task_rows;
    const int64_t n = std::min(task_rows, p.n - first);
    float* const c = scratch + thread * totals;
    for (int64_t m = 0; m < p.x.rows; m += kernels::kMaxDotRows) {
      const int64_t m_rows = std::min<int64_t>(kernels::kMaxDotRows, p.x.rows - m);
      weights.dot(p.x.row(m), p.x.stride, static_cast<int>(m_rows), p.at(first, 0), p.w_stride, n, p.k(), plan.section,
                  c + m * task_rows, task_rows);
    }
    Finish(kernel, p.epilogue, c, task_rows, 0, p.x.rows, first, n);
  });
}

// Rows [row0, row0 + rows) of x, laid out by the kernel in tiles: section s, lane l, tile t at
// packed + begin(s) * padded + (l * padded + t * tile_rows) * steps(s), padded = rows rounded up to whole tiles.
struct PackedRows {
  int64_t row0;
  int64_t rows;
  int64_t padded;
  float* data;
};

void PackRowsOfX(Compute& compute, const Problem& p, const SectionPlan& plan, const PackedRows& packed) {
  const MatmulKernels& kernel = *compute.kernels().matmul;
  const int64_t height = kernel.tile_rows;
  compute.pool().ParallelFor(packed.padded / height, [&](int64_t tile, int) {
    const int64_t first = tile * height;
    const int rows = static_cast<int>(std::min(height, packed.rows - first));
    for (int64_t s = 0; s < plan.count; ++s) {
      const int64_t steps = plan.steps(s);
      kernel.pack_x(p.x.row(packed.row0 + first) + plan.begin(s), p.x.stride, rows, plan.len(s), steps,
                    packed.data + plan.begin(s) * packed.padded + first * steps, packed.padded * steps);
    }
  });
}

// Floats between the lanes of a panel (an odd number of lines, see matmul.h), and of a whole panel.
int64_t LaneStride(int64_t steps, int64_t width) { return (steps * width / 16 | 1) * 16; }
int64_t PanelFloats(const SectionPlan& plan, int64_t width) {
  return kLanes * LaneStride(plan.section / kLanes, width);
}

// What one thread computes at a time: panels [panel, panel + panels) for packed rows [row, row + rows).
struct Piece {
  int64_t panel, panels, row, rows;
};

void ComputePiece(const MatmulKernels& kernel, const Problem& p, const SectionPlan& plan, const PackedRows& packed,
                  const Piece& piece, float* panels, float* c) {
  const WeightKernels& weights = For(kernel, p.dtype);
  const int64_t width = kernel.panel_width;
  const int64_t panel_floats = PanelFloats(plan, width);
  const auto pack = p.columns ? weights.pack_columns : weights.pack_rows;
  const int64_t first_col = piece.panel * width;
  const int64_t cols = std::min(piece.panels * width, p.n - first_col);
  for (int64_t s = 0; s < plan.count; ++s) {
    const int64_t steps = plan.steps(s);
    pack(p.at(first_col, plan.begin(s)), p.w_stride, cols, plan.len(s), steps, panels, LaneStride(steps, width),
         panel_floats);
    const float* const x = packed.data + plan.begin(s) * packed.padded;
    for (int64_t m = 0; m < piece.rows; m += kCacheRows) {
      const int64_t rows = std::min(kCacheRows, piece.rows - m);
      for (int64_t l = 0; l < kLanes; ++l) {
        for (int64_t g = 0; g < piece.panels; ++g) {
          kernel.tile(x + (l * packed.padded + piece.row + m) * steps, steps, rows,
                      panels + g * panel_floats + l * LaneStride(steps, width), s == 0 && l == 0,
                      c + (g * piece.rows + m) * width);
        }
      }
    }
  }
  for (int64_t g = 0; g < piece.panels; ++g) {
    Finish(kernel, p.epilogue, c + g * piece.rows * width, width, packed.row0 + piece.row, piece.rows,
           first_col + g * width, std::min(width, cols - g * width));
  }
}

// Cuts a product into pieces: groups of panels with all rows first, then the last groups in slices of rows (or, when
// there are few rows, in single panels), so that all threads finish together.
class Pieces {
 public:
  Pieces(int64_t n_panels, int64_t rows, int threads) : n_panels_(n_panels), rows_(rows) {
    group_ = std::clamp<int64_t>(n_panels / (4 * threads), 1, kGroupPanels);
    slice_ = rows >= 4 * kCacheRows ? 2 * kCacheRows : rows;
    const int64_t groups = (n_panels + group_ - 1) / group_;
    whole_ = slice_ == rows ? groups : std::max<int64_t>(0, groups - threads);
    slices_ = (rows + slice_ - 1) / slice_;
    count_ = whole_ + (groups - whole_) * slices_;
  }
  int64_t count() const { return count_; }
  Piece operator[](int64_t i) const {
    Piece piece{};
    const int64_t late = i - whole_;
    const int64_t group = late < 0 ? i : whole_ + late / slices_;
    piece.panel = group * group_;
    piece.panels = std::min(group_, n_panels_ - piece.panel);
    piece.row = late < 0 ? 0 : late % slices_ * slice_;
    piece.rows = late < 0 ? rows_ : std::min(slice_, rows_ - piece.row);
    return piece;
  }

 private:
  int64_t n_panels_, rows_, group_, slice_, whole_, slices_, count_;
};

void TiledProduct(Compute& compute, const Problem& p) {
  const MatmulKernels& kernel = *compute.kernels().matmul;
  const SectionPlan plan(p.k());
  const int64_t height = kernel.tile_rows;
  const int threads = compute.pool().size();
  const int64_t most_rows = std::max(kLeastPackedRows, kPackedFloats / plan.padded()) / 12 * 12;
  const int64_t chunk_rows = std::min(p.x.rows, most_rows);
  const int64_t padded_rows = (chunk_rows + height - 1) / height * height;
  const int64_t n_panels = (p.n + kernel.panel_width - 1) / kernel.panel_width;

  float* const data = compute.scratch().New<float>(padded_rows * plan.padded());
  const int64_t panel_floats = kGroupPanels * PanelFloats(plan, kernel.panel_width);
  const int64_t c_floats = kGroupPanels * chunk_rows * kernel.panel_width;
  float* const scratch = compute.scratch().New<float>((panel_floats + c_floats) * threads);
  for (int64_t row0 = 0; row0 < p.x.rows; row0 += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, p.x.rows - row0);
    const PackedRows packed{row0, rows, (rows + height - 1) / height * height, data};
    PackRowsOfX(compute, p, plan, packed);
    const Pieces pieces(n_panels, rows, threads);
    compute.pool().ParallelFor(pieces.count(), [&](int64_t i, int thread) {
      float* const panels = scratch + thread * (panel_floats + c_floats);
      ComputePiece(kernel, p, plan, packed, pieces[i], panels, panels + panel_floats);
    });
  }
}

void Multiply(Compute& compute, const Problem& p) {
  MINICPM_CHECK(p.epilogue.y.rows == p.x.rows && p.epilogue.y.cols == p.n && p.k() > 0);
  if (p.x.rows == 0 || p.n == 0) return;
  compute.scratch().Reset();
  if (!p.columns && p.x.rows <= kMostDotRows) {
    DotProduct(compute, p);
  } else {
    TiledProduct(compute, p);
  }
}

Problem MakeProblem(Compute& compute, ConstMatrix x, const LinearJob& job) {
  const TensorView& w = job.w.weight;
  MINICPM_CHECK(w.shape.rank() == 2 && x.cols == job.w.k());
  return {x, w.data, w.dtype, job.w.k(), false, job.w.n(), MakeEpilogue(compute, job)};
}

void PlainLinear(Compute& compute, ConstMatrix x, const LinearJob& job) {
  Multiply(compute, MakeProblem(compute, x, job));
}

bool AnyPacked(std::span<const LinearJob> jobs) {
  return std::any_of(jobs.begin(), jobs.end(), [](const LinearJob& j) { return IsPacked(j.w.weight.dtype); });
}

bool AllPacked(std::span<const LinearJob> jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const LinearJob& j) { return IsPacked(j.w.weight.dtype); });
}

// norm(x) as a matrix of the arena, or x itself.
ConstMatrix Normed(Compute& compute, ConstMatrix x, const InputNorm& norm) {
  if (norm.weight == nullptr) return x;
  const Matrix out = compute.arena().NewMatrix(x.rows, x.cols);
  if (norm.bias == nullptr) {
    RmsNorm(compute, x, norm.weight, norm.eps, out);
  } else {
    LayerNorm(compute, x, norm.weight, norm.bias, norm.eps, out);
  }
  return out;
}

}  // namespace

void Linear(Compute& compute, ConstMatrix x, const LinearWeight& w, Matrix y, Activation act) {
  const LinearJob job = {w, y, act};
  NormLinears(compute, x, {}, {&job, 1});
}

void LinearAdd(Compute& compute, ConstMatrix x, const LinearWeight& w, Matrix y) {
  const LinearJob job = {w, y, Activation::kNone, true};
  NormLinears(compute, x, {}, {&job, 1});
}

void NormLinears(Compute& compute, ConstMatrix x, const InputNorm& norm, std::span<const LinearJob> jobs) {
  if (AnyPacked(jobs)) PackedLinears(compute, x, norm, jobs);
  if (AllPacked(jobs)) return;
  ArenaScope scope(compute.arena());
  const ConstMatrix input = Normed(compute, x, norm);
  for (const LinearJob& job : jobs) {
    if (!IsPacked(job.w.weight.dtype)) PlainLinear(compute, input, job);
  }
}

void NormSwiGlu(Compute& compute, ConstMatrix x, const InputNorm& norm, const LinearWeight& gate,
                const LinearWeight& up, Matrix inner) {
  MINICPM_CHECK(gate.n() == up.n());
  if (IsPacked(gate.weight.dtype) && gate.weight.dtype == up.weight.dtype) {
    PackedSwiGlu(compute, x, norm, gate, up, inner);
    return;
  }
  ArenaScope scope(compute.arena());
  const Matrix right = compute.arena().NewMatrix(x.rows, up.n());
  const LinearJob jobs[] = {{gate, inner}, {up, right}};
  NormLinears(compute, x, norm, jobs);
  SiluMul(compute, inner, right);
}

void MatmulPlain(Compute& compute, ConstMatrix x, const TensorView& m, Matrix y) {
  MINICPM_CHECK(m.shape.rank() == 2 && x.cols == m.shape[0]);
  Multiply(compute, {x, m.data, m.dtype, m.shape[1], true, m.shape[1], {nullptr, nullptr, false, y}});
}

}  // namespace minicpm
