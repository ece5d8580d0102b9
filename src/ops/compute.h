// Compute: what an operator needs besides its tensors: threads, the kernel table, scratch memory, and perhaps a Tap.
// One per worker thread; models and ops receive it by reference and keep nothing.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "os/cpu_features.h"
#include "os/thread_pool.h"
#include "tensor/arena.h"
#include "tensor/tap.h"

namespace minicpm {

namespace kernels {
struct KernelTable;  // src/kernels/table.h
}

struct ComputeOptions {
  int n_threads = 0;  // 0 = UsableCores()
  bool pin = false;
  std::string_view isa = "";  // "" = best available; "scalar", "avx2": narrow the choice (tests, --isa)
};

// The kernels for `isa`, or the best this CPU can run when it is empty. Errors: as Compute::Create.
Result<const kernels::KernelTable*> ChooseKernels(std::string_view isa, const CpuFeatures& features);

// Threads: one user at a time.
class Compute {
 public:
  // Errors: kInvalidArgument for an unknown isa, kUnsupported when this CPU lacks it.
  static Result<std::unique_ptr<Compute>> Create(const ComputeOptions& options);

  ThreadPool& pool() { return pool_; }
  const kernels::KernelTable& kernels() const { return *kernels_; }
  // Name of the kernels' instruction set, as --isa takes it.
  const char* isa() const;
  // For the caller's own values. Operators leave it alone.
  Arena& arena() { return arena_; }
  // For operators' temporaries; every operator empties it at its start, so it grows to the hungriest one and stays.
  Arena& scratch() { return scratch_; }
  Tap* tap() const { return tap_; }
  void set_tap(Tap* tap) { tap_ = tap; }

 private:
  Compute(int n_threads, bool pin, const kernels::KernelTable* table) : pool_(n_threads, pin), kernels_(table) {}
  ThreadPool pool_;
  const kernels::KernelTable* kernels_;
  Arena arena_;
  Arena scratch_;
  Tap* tap_ = nullptr;
};

// Calls the Tap, if there is one.
inline void Report(Compute& compute, const Stage& stage, ConstMatrix value) {
  if (compute.tap() != nullptr) compute.tap()->OnStage(stage, value);
}

}  // namespace minicpm
