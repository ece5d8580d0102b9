// Implementation of linear.h. Few rows: dot products straight from the weights. Many rows: panels of weights are laid
// out once per thread and every row runs over them. Both follow the one order of summation in kernels/matmul/matmul.h.
#include "ops/linear.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_plan.h"
#include "kernels/table.h"

namespace minicpm {
namespace {

using kernels::kLanes;
using kernels::MatmulKernels;
using kernels::SectionPlan;
using kernels::WeightKernels;

// Up to this many rows, reading weights in place beats laying them out.
constexpr int64_t kMostDotRows = 8;
// Bytes of weights in one dot task: stays in the second-level cache for a second group of rows.
constexpr int64_t kDotTaskBytes = int64_t{128} << 10;
// Floats of x laid out at once (8 MiB), and rows that stay in the second-level cache while panels change.
constexpr int64_t kPackedFloats = int64_t{2} << 20;
constexpr int64_t kLeastPackedRows = 96;
constexpr int64_t kCacheRows = 192;
// Panels that share one pass over x.
constexpr int64_t kGroupPanels = 4;
// Rows of a panel's result handled at a time at the end.
constexpr int64_t kStoreRows = 64;

struct Problem {
  ConstMatrix x;
  const void* w;
  DType dtype;
  int64_t w_stride;
  bool columns;  // w is [K, N]
  int64_t n;
  const float* bias;
  kernels::ActivationFn act;  // null: none
  bool add;
  Matrix y;

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

// y[row.., col..] = act(c + bias), or y += ...; c is overwritten.
void Finish(const MatmulKernels& kernel, const Problem& p, float* c, int64_t c_stride, int64_t row, int64_t rows,
            int64_t col, int64_t cols) {
  for (int64_t r = 0; r < rows; r += kStoreRows) {
    const int64_t n = std::min(kStoreRows, rows - r);
    float* const part = c + r * c_stride;
    if (p.bias != nullptr) kernel.add_bias(p.bias + col, n, cols, part, c_stride);
    if (p.act != nullptr) {
      if (cols == c_stride) {
        p.act(part, n * cols);
      } else {
        for (int64_t i = 0; i < n; ++i) p.act(part + i * c_stride, cols);
      }
    }
    kernel.store(part, c_stride, n, cols, p.add, p.y.row(row + r) + col, p.y.stride);
  }
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
    Finish(kernel, p, c, task_rows, 0, p.x.rows, first, n);
  });
}

// x rows [row0, row0 + rows) laid out: section s, lane l, row r at packed + begin(s) * rows + (l * rows + r) *
// steps(s).
void PackRowsOfX(Compute& compute, const Problem& p, const SectionPlan& plan, int64_t row0, int64_t rows,
                 float* packed) {
  const MatmulKernels& kernel = *compute.kernels().matmul;
  constexpr int64_t kTaskRows = 12;
  compute.pool().ParallelFor((rows + kTaskRows - 1) / kTaskRows, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * kTaskRows);
    for (int64_t s = 0; s < plan.count; ++s) {
      float* const section = packed + plan.begin(s) * rows;
      for (int64_t r = task * kTaskRows; r < end; ++r) {
        kernel.pack_x(p.x.row(row0 + r) + plan.begin(s), plan.len(s), plan.steps(s), section + r * plan.steps(s),
                      rows * plan.steps(s));
      }
    }
  });
}

// Panels [first, first + count) of the result for rows [row0, row0 + rows).
void PanelGroup(const MatmulKernels& kernel, const Problem& p, const SectionPlan& plan, int64_t row0, int64_t rows,
                const float* packed, int64_t first, int64_t count, float* panels, float* c) {
  const WeightKernels& weights = For(kernel, p.dtype);
  const int64_t width = kernel.panel_width;
  const int64_t panel_floats = plan.section * width;
  for (int64_t s = 0; s < plan.count; ++s) {
    const int64_t steps = plan.steps(s);
    for (int64_t g = 0; g < count; ++g) {
      const int64_t col = (first + g) * width;
      const int cols = static_cast<int>(std::min(width, p.n - col));
      (p.columns ? weights.pack_columns : weights.pack_rows)(p.at(col, plan.begin(s)), p.w_stride, cols, plan.len(s),
                                                             steps, panels + g * panel_floats);
    }
    const float* const x = packed + plan.begin(s) * rows;
    for (int64_t m = 0; m < rows; m += kCacheRows) {
      const int64_t m_rows = std::min(kCacheRows, rows - m);
      for (int64_t l = 0; l < kLanes; ++l) {
        for (int64_t g = 0; g < count; ++g) {
          kernel.tile(x + (l * rows + m) * steps, steps, m_rows, panels + g * panel_floats + l * steps * width,
                      s == 0 && l == 0, c + (g * rows + m) * width);
        }
      }
    }
  }
  for (int64_t g = 0; g < count; ++g) {
    const int64_t col = (first + g) * width;
    Finish(kernel, p, c + g * rows * width, width, row0, rows, col, std::min(width, p.n - col));
  }
}

void TiledProduct(Compute& compute, const Problem& p) {
  const MatmulKernels& kernel = *compute.kernels().matmul;
  const SectionPlan plan(p.k());
  const int64_t width = kernel.panel_width;
  const int threads = compute.pool().size();
  const int64_t most_rows = std::max(kLeastPackedRows, kPackedFloats / plan.padded() / 12 * 12);
  const int64_t chunk_rows = std::min(p.x.rows, most_rows);

  // Groups of panels first, single panels at the end so that all threads finish together.
  const int64_t n_panels = (p.n + width - 1) / width;
  const int64_t singles = std::min<int64_t>(n_panels, 6 * threads);
  const int64_t groups = (n_panels - singles) / kGroupPanels;
  const int64_t tasks = groups + (n_panels - groups * kGroupPanels);

  float* const packed = compute.scratch().New<float>(chunk_rows * plan.padded());
  const int64_t panel_floats = kGroupPanels * plan.section * width;
  const int64_t c_floats = kGroupPanels * chunk_rows * width;
  float* const scratch = compute.scratch().New<float>((panel_floats + c_floats) * threads);
  for (int64_t row0 = 0; row0 < p.x.rows; row0 += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, p.x.rows - row0);
    PackRowsOfX(compute, p, plan, row0, rows, packed);
    compute.pool().ParallelFor(tasks, [&](int64_t task, int thread) {
      const bool group = task < groups;
      const int64_t first = group ? task * kGroupPanels : groups * kGroupPanels + (task - groups);
      float* const panels = scratch + thread * (panel_floats + c_floats);
      PanelGroup(kernel, p, plan, row0, rows, packed, first, group ? kGroupPanels : 1, panels, panels + panel_floats);
    });
  }
}

void Multiply(Compute& compute, const Problem& p) {
  MINICPM_CHECK(p.y.rows == p.x.rows && p.y.cols == p.n && p.k() > 0);
  if (p.x.rows == 0 || p.n == 0) return;
  compute.scratch().Reset();
  if (!p.columns && p.x.rows <= kMostDotRows) {
    DotProduct(compute, p);
  } else {
    TiledProduct(compute, p);
  }
}

kernels::ActivationFn KernelOf(Compute& compute, Activation act) {
  const kernels::ElementwiseKernels& kernel = *compute.kernels().elementwise;
  switch (act) {
    case Activation::kNone:
      return nullptr;
    case Activation::kGeluTanh:
      return kernel.gelu_tanh;
    case Activation::kGeluErf:
      return kernel.gelu_erf;
    case Activation::kRelu:
      return kernel.relu;
  }
  return nullptr;
}

Problem MakeProblem(ConstMatrix x, const LinearWeight& w, Matrix y) {
  MINICPM_CHECK(w.weight.shape.rank() == 2 && x.cols == w.k());
  return {x, w.weight.data, w.weight.dtype, w.k(), false, w.n(), w.bias, nullptr, false, y};
}

}  // namespace

void Linear(Compute& compute, ConstMatrix x, const LinearWeight& w, Matrix y, Activation act) {
  Problem p = MakeProblem(x, w, y);
  p.act = KernelOf(compute, act);
  Multiply(compute, p);
}

void LinearAdd(Compute& compute, ConstMatrix x, const LinearWeight& w, Matrix y) {
  Problem p = MakeProblem(x, w, y);
  p.add = true;
  Multiply(compute, p);
}

void MatmulPlain(Compute& compute, ConstMatrix x, const TensorView& m, Matrix y) {
  MINICPM_CHECK(m.shape.rank() == 2 && x.cols == m.shape[0]);
  Multiply(compute, {x, m.data, m.dtype, m.shape[1], true, m.shape[1], nullptr, nullptr, false, y});
}

}  // namespace minicpm
