// Implementation of packed_linear.h. Few rows: runs of panels are streamed from memory once. Many rows: a few panels at
// a time meet all rows. Both give the same bits (kernels/qmatmul/qmatmul.h).
#include "ops/packed_linear.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/norm.h"
#include "kernels/qmatmul/qmatmul.h"
#include "kernels/table.h"
#include "ops/epilogue.h"
#include "quant/packed.h"

namespace minicpm {
namespace {

using kernels::PackedMatmulKernels;
using kernels::QuantizedRows;
using quant::kPanelRows;

// Rows of x lie this much further apart than their length: a stride that is a multiple of 4 KiB would let the rows of a
// tile compete for the same lines of the cache.
constexpr int64_t kRowGapBytes = 64;
// Tasks per thread of a product with few rows: enough that nobody waits long for the last one.
constexpr int64_t kTasksPerThread = 8;
constexpr int64_t kMostRunPanels = 32;
constexpr int64_t kMostManyPanels = 8;  // more would need larger sums than the second-level cache likes

struct Input {
  const PackedMatmulKernels* kernel;
  QuantizedRows rows;
  int64_t m;
  int64_t padded_k;
};

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Scratch for norm(x) in 8 bits.
Input NewInput(Compute& compute, ConstMatrix x, DType dtype) {
  const kernels::QMatmulKernels& family = *compute.kernels().qmatmul;
  const bool int4 = dtype == DType::kInt4Packed;
  const kernels::ActivationFormat& format = int4 ? kernels::kInt4Activation : kernels::kInt8Activation;
  Input in{int4 ? &family.int4 : &family.int8, {}, x.rows, quant::PaddedColumns(dtype, x.cols)};
  in.rows.q_stride = RoundUp(in.padded_k, 64) + kRowGapBytes;
  in.rows.start_stride = RoundUp(in.padded_k / format.run * 2, 32);
  in.rows.scale_stride = RoundUp((in.padded_k + format.block - 1) / format.block, 16);
  in.rows.q = compute.scratch().New<int8_t>(in.rows.q_stride * x.rows);
  in.rows.start = compute.scratch().New<int16_t>(in.rows.start_stride * x.rows);
  in.rows.scale = compute.scratch().New<float>(in.rows.scale_stride * x.rows);
  return in;
}

// A row is normed into a buffer of the first-level cache and quantised from there.
Input Quantize(Compute& compute, ConstMatrix x, const InputNorm& norm, DType dtype) {
  const Input in = NewInput(compute, x, dtype);
  const kernels::NormKernels& norms = *compute.kernels().norm;
  const int threads = compute.pool().size();
  const int64_t row_floats = RoundUp(x.cols, 16);
  float* const buffers = norm.weight == nullptr ? nullptr : compute.scratch().New<float>(row_floats * threads);
  constexpr int64_t kTaskFloats = 16384;
  const int64_t run = std::max<int64_t>(1, kTaskFloats / x.cols);
  compute.pool().ParallelFor((x.rows + run - 1) / run, [&](int64_t task, int thread) {
    for (int64_t r = task * run; r < std::min(x.rows, (task + 1) * run); ++r) {
      const float* row = x.row(r);
      if (norm.weight != nullptr) {
        float* const buffer = buffers + thread * row_floats;
        if (norm.bias == nullptr) {
          norms.rms_norm(row, x.cols, norm.weight, norm.eps, buffer);
        } else {
          norms.layer_norm(row, x.cols, norm.weight, norm.bias, norm.eps, buffer);
        }
        row = buffer;
      }
      in.kernel->quantize(row, x.cols, in.padded_k, in.rows.q + r * in.rows.q_stride,
                          in.rows.start + r * in.rows.start_stride, in.rows.scale + r * in.rows.scale_stride);
    }
  });
  return in;
}

// Panels [first, first + n) of a weight.
struct Panels {
  const std::byte* data;
  int64_t panel_bytes;
  int64_t n;
};

Panels PanelsOf(const TensorView& w, int64_t first, int64_t n) {
  const int64_t bytes = quant::PanelBytes(w.dtype, w.shape[1]);
  return {static_cast<const std::byte*>(w.data) + first * bytes, bytes, n};
}

int64_t PanelCount(const TensorView& w) { return (w.shape[0] + kPanelRows - 1) / kPanelRows; }

// How the panels of some weights are cut into tasks, so that a task never spans two weights.
class Tasks {
 public:
  Tasks(int64_t n_panels, int threads, bool few)
      : run_(few ? std::clamp<int64_t>(n_panels / (kTasksPerThread * threads) / 2 * 2, 2, kMostRunPanels)
                 : std::clamp<int64_t>(n_panels / (kTasksPerThread * threads), 1, kMostManyPanels)) {}
  int64_t run() const { return run_; }
  int64_t CountOf(const TensorView& w) const { return (PanelCount(w) + run_ - 1) / run_; }

 private:
  int64_t run_;
};

// Sums of all rows with a run of panels, row after row, 16 columns a panel.
void Multiply(const Input& in, const Panels& panels, bool few, float* c, std::byte* scratch) {
  if (few) {
    in.kernel->few(in.rows, in.m, panels.data, panels.panel_bytes, panels.n, in.padded_k, c, panels.n * kPanelRows);
  } else {
    in.kernel->many(in.rows, in.m, panels.data, panels.panel_bytes, panels.n, in.padded_k, c, panels.n * kPanelRows,
                    scratch);
  }
}

// Per-thread memory of a loop over tasks.
struct TaskScratch {
  TaskScratch(Compute& compute, int64_t m, int64_t run, int sums_each)
      : c_floats(RoundUp(m * run * kPanelRows, 16)),
        n_sums(sums_each),
        bytes(RoundUp(compute.kernels().qmatmul->scratch_bytes, 64)),
        sums(compute.scratch().New<float>(c_floats * sums_each * compute.pool().size())),
        kernel(compute.scratch().New<std::byte>(bytes * compute.pool().size())) {}
  float* c(int thread, int i) const { return sums + (thread * n_sums + i) * c_floats; }
  std::byte* for_kernel(int thread) const { return kernel + thread * bytes; }
  int64_t c_floats;
  int64_t n_sums;
  int64_t bytes;
  float* sums;
  std::byte* kernel;
};

void LinearsOf(Compute& compute, ConstMatrix x, const InputNorm& norm, std::span<const LinearJob> jobs, DType dtype) {
  int64_t n_panels = 0;
  for (const LinearJob& job : jobs) {
    if (job.w.weight.dtype != dtype) continue;
    MINICPM_CHECK(job.w.k() == x.cols && job.y.rows == x.rows && job.y.cols == job.w.n());
    n_panels += PanelCount(job.w.weight);
  }
  if (n_panels == 0 || x.rows == 0) return;
  compute.scratch().Reset();
  const Input in = Quantize(compute, x, norm, dtype);
  const bool few = x.rows <= compute.kernels().qmatmul->most_few_rows;
  const Tasks tasks(n_panels, compute.pool().size(), few);
  const TaskScratch scratch(compute, x.rows, tasks.run(), 1);
  int64_t n_tasks = 0;
  for (const LinearJob& job : jobs) n_tasks += job.w.weight.dtype == dtype ? tasks.CountOf(job.w.weight) : 0;
  const kernels::MatmulKernels& matmul = *compute.kernels().matmul;
  compute.pool().ParallelFor(n_tasks, [&](int64_t task, int thread) {
    const LinearJob* job = jobs.data();
    for (;; ++job) {
      if (job->w.weight.dtype != dtype) continue;
      const int64_t count = tasks.CountOf(job->w.weight);
      if (task < count) break;
      task -= count;
    }
    const TensorView& w = job->w.weight;
    const int64_t first = task * tasks.run();
    const Panels panels = PanelsOf(w, first, std::min(tasks.run(), PanelCount(w) - first));
    float* const c = scratch.c(thread, 0);
    Multiply(in, panels, few, c, scratch.for_kernel(thread));
    const int64_t col = first * kPanelRows;
    Finish(matmul, MakeEpilogue(compute, *job), c, panels.n * kPanelRows, 0, x.rows, col,
           std::min(panels.n * kPanelRows, w.shape[0] - col));
  });
}

}  // namespace

void PackedLinears(Compute& compute, ConstMatrix x, const InputNorm& norm, std::span<const LinearJob> jobs) {
  for (const DType dtype : {DType::kInt8Packed, DType::kInt4Packed}) LinearsOf(compute, x, norm, jobs, dtype);
}

void PackedSwiGlu(Compute& compute, ConstMatrix x, const InputNorm& norm, const LinearWeight& gate,
                  const LinearWeight& up, Matrix inner) {
  const TensorView& w = gate.weight;
  MINICPM_CHECK(gate.k() == x.cols && up.weight.shape == w.shape && inner.rows == x.rows && inner.cols == gate.n());
  if (x.rows == 0) return;
  compute.scratch().Reset();
  const Input in = Quantize(compute, x, norm, w.dtype);
  const bool few = x.rows <= compute.kernels().qmatmul->most_few_rows;
  const Tasks tasks(PanelCount(w), compute.pool().size(), few);
  const TaskScratch scratch(compute, x.rows, tasks.run(), 2);
  const kernels::MatmulKernels& matmul = *compute.kernels().matmul;
  auto* const silu_mul = compute.kernels().elementwise->silu_mul;
  compute.pool().ParallelFor(tasks.CountOf(w), [&](int64_t task, int thread) {
    const int64_t first = task * tasks.run();
    const int64_t n = std::min(tasks.run(), PanelCount(w) - first);
    float* const left = scratch.c(thread, 0);
    float* const right = scratch.c(thread, 1);
    Multiply(in, PanelsOf(w, first, n), few, left, scratch.for_kernel(thread));
    Multiply(in, PanelsOf(up.weight, first, n), few, right, scratch.for_kernel(thread));
    silu_mul(left, right, x.rows * n * kPanelRows);
    const int64_t col = first * kPanelRows;
    Finish(matmul, {nullptr, nullptr, false, inner}, left, n * kPanelRows, 0, x.rows, col,
           std::min(n * kPanelRows, w.shape[0] - col));
  });
}

}  // namespace minicpm
