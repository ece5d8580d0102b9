// Helpers of the tests of kernels and ops: seeded numbers, storage formats, memory that faults past its end, the tables
// that this CPU can run.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "base/half.h"
#include "gtest/gtest.h"
#include "kernels/table.h"
#include "os/cpu_features.h"
#include "tensor/tensor.h"

namespace minicpm::testing_util {

// A small fixed generator: tests must not depend on the library's distributions.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t Bits() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state_ >> 32);
  }
  // Roughly normal, standard deviation 1.
  float Next() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(Bits()) / 4294967296.0 - 0.5;
    return static_cast<float>(sum * 1.7320508);
  }
  std::vector<float> Many(int64_t n, float scale = 1.0f) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& f : v) f = Next() * scale;
    return v;
  }

 private:
  uint64_t state_;
};

// `bytes` of memory whose end touches a page that must not be touched: reading or writing one byte too far is a fault.
// The start is aligned to nothing in particular.
class Guarded {
 public:
  explicit Guarded(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + mapped_ - page, page, PROT_NONE), 0);
    data_ = base_ + mapped_ - page - bytes;
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* base_;
  std::byte* data_;
  size_t mapped_;
};

// A guarded copy of floats.
class GuardedFloats {
 public:
  explicit GuardedFloats(const std::vector<float>& values) : memory_(values.size() * sizeof(float)) {
    if (!values.empty()) std::memcpy(memory_.data(), values.data(), values.size() * sizeof(float));
  }
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }

 private:
  Guarded memory_;
};

// Values rounded to `dtype`, in guarded storage and as float.
class Stored {
 public:
  Stored(const std::vector<float>& values, DType dtype, Shape shape) : memory_(values.size() * SizeOf(dtype)) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kF32) {
        std::memcpy(memory_.data() + i * 4, &values[i], 4);
        exact.push_back(values[i]);
        continue;
      }
      const uint16_t h = dtype == DType::kBF16 ? F32ToBf16(values[i]) : F32ToF16(values[i]);
      std::memcpy(memory_.data() + i * 2, &h, 2);
      exact.push_back(dtype == DType::kBF16 ? Bf16ToF32(h) : F16ToF32(h));
    }
    view = {memory_.data(), dtype, shape};
  }
  std::vector<float> exact;
  TensorView view;

 private:
  Guarded memory_;
};

// The compiled tables that this CPU runs. Must agree with ops/compute.cc, which a test there checks.
inline std::vector<const kernels::KernelTable*> RunnableTables() {
  const CpuFeatures features = DetectCpuFeatures();
  std::vector<const kernels::KernelTable*> tables;
  for (const kernels::KernelTable& table : kernels::KernelTables()) {
    const std::string isa = table.isa;
    const bool runs = isa == "scalar" || (isa == "avx2" && features.avx2) || (isa == "avx_vnni" && features.avx_vnni) ||
                      (isa == "avx512_vnni" && features.avx512_vnni) || (isa == "neon_dotprod" && features.dotprod);
    if (runs) tables.push_back(&table);
  }
  return tables;
}

inline const kernels::KernelTable& ScalarTable() { return kernels::KernelTables().back(); }

// Fixture and name for tests that run once for every table.
class EveryTable : public testing::TestWithParam<const kernels::KernelTable*> {
 protected:
  const kernels::KernelTable& table() const { return *GetParam(); }
};

inline std::string TableName(const testing::TestParamInfo<const kernels::KernelTable*>& info) {
  return info.param->isa;
}

}  // namespace minicpm::testing_util

namespace minicpm::kernels {
// For GoogleTest's messages.
inline void PrintTo(const KernelTable* table, std::ostream* out) { *out << table->isa; }
}  // namespace minicpm::kernels
