// Implementation of packed_attention.h: heads and runs of queries over the threads.
#include "ops/packed_attention.h"

#include <algorithm>

#include "kernels/qattention/qattention.h"
#include "kernels/table.h"

namespace minicpm {
namespace {

// Queries of one kernel call: a multiple of every kernel's group, enough that a head's keys are fetched seldom.
constexpr int64_t kTaskRows = 96;

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Sizes of the four parts of a head, each rounded up to 64 bytes.
struct HeadBytes {
  HeadBytes(int64_t n_keys, int64_t head_dim) {
    const int64_t n = RoundUp(n_keys, kernels::kQHeadKeys);
    const int64_t dims = RoundUp(head_dim, kernels::kQHeadDims);
    keys = RoundUp(n * dims, 64);
    values = RoundUp(2 * n * dims, 64);
    key_scale = RoundUp(4 * n, 64);
    value_scale = RoundUp(4 * dims, 64);
  }
  int64_t total() const { return keys + values + key_scale + value_scale; }
  int64_t keys, values, key_scale, value_scale;
};

kernels::QHead HeadOf(const PackedKeysValues& packed, int64_t head) {
  const HeadBytes bytes(packed.n_keys, packed.head_dim);
  std::byte* p = packed.memory + head * bytes.total();
  kernels::QHead h{};
  h.keys = reinterpret_cast<uint8_t*>(p);
  h.values = reinterpret_cast<int16_t*>(p += bytes.keys);
  h.key_scale = reinterpret_cast<float*>(p += bytes.values);
  h.value_scale = reinterpret_cast<float*>(p += bytes.key_scale);
  h.n_keys = packed.n_keys;
  h.head_dim = packed.head_dim;
  return h;
}

}  // namespace

int64_t PackedKeysValuesBytes(int64_t n_keys, int64_t n_heads, int64_t head_dim) {
  return n_heads * HeadBytes(n_keys, head_dim).total();
}

void PackKeysValues(Compute& compute, ConstMatrix k, ConstMatrix v, const PackedKeysValues& packed) {
  MINICPM_CHECK(packed.n_keys == k.rows && packed.n_keys == v.rows && packed.n_keys > 0);
  MINICPM_CHECK(k.cols == packed.n_heads * packed.head_dim && v.cols == k.cols);
  const kernels::QAttentionKernels& kernel = *compute.kernels().qattention;
  compute.pool().ParallelFor(packed.n_heads, [&](int64_t head, int) {
    const int64_t first = head * packed.head_dim;
    kernel.pack(k.data + first, k.stride, v.data + first, v.stride, HeadOf(packed, head));
  });
}

void PackedAttention(Compute& compute, ConstMatrix q, const PackedKeysValues& packed, float scale, Matrix out) {
  MINICPM_CHECK(q.cols == packed.n_heads * packed.head_dim && out.cols == q.cols && out.rows == q.rows);
  const kernels::QAttentionKernels& kernel = *compute.kernels().qattention;
  compute.scratch().Reset();
  const int64_t bytes = RoundUp(kernel.scratch_bytes(packed.n_keys, packed.head_dim), 64);
  std::byte* const scratch = compute.scratch().New<std::byte>(bytes * compute.pool().size());
  const int64_t runs = (q.rows + kTaskRows - 1) / kTaskRows;
  compute.pool().ParallelFor(packed.n_heads * runs, [&](int64_t task, int thread) {
    const int64_t first = task / runs * packed.head_dim;
    const int64_t row = task % runs * kTaskRows;
    kernel.attend(q.row(row) + first, q.stride, std::min(kTaskRows, q.rows - row), scale, HeadOf(packed, task / runs),
                  out.row(row) + first, out.stride, scratch + thread * bytes);
  });
}

}  // namespace minicpm
