// Implementation of compute.h: the one place where CPU features meet the roster of kernels.
#include "ops/compute.h"

#include <string>

#include "kernels/table.h"
#include "os/cpu_features.h"

namespace minicpm {
namespace {

bool Runs(std::string_view isa, const CpuFeatures& features) {
  if (isa == "avx512_vnni") return features.avx512_vnni;
  if (isa == "avx_vnni") return features.avx_vnni;
  if (isa == "avx2") return features.avx2;
  if (isa == "neon_dotprod") return features.dotprod;
  return isa == "scalar";
}

}  // namespace

Result<const kernels::KernelTable*> ChooseKernels(std::string_view isa, const CpuFeatures& features) {
  std::string known;
  for (const kernels::KernelTable& table : kernels::KernelTables()) {
    if (isa.empty() && Runs(table.isa, features)) return &table;
    if (isa == table.isa) {
      if (Runs(isa, features)) return &table;
      return Fail(ErrorCode::kUnsupported,
                  "isa: this CPU has no " + std::string(table.isa) + " (or the system hides it)");
    }
    known += known.empty() ? "" : ", ";
    known += table.isa;
  }
  return Fail(ErrorCode::kInvalidArgument, "isa: expected one of " + known + ", found '" + Printable(isa) + "'");
}

Result<std::unique_ptr<Compute>> Compute::Create(const ComputeOptions& options) {
  MINICPM_ASSIGN(const kernels::KernelTable* table, ChooseKernels(options.isa, DetectCpuFeatures()));
  constexpr int kMostThreads = 1024;
  if (options.n_threads < 0 || options.n_threads > kMostThreads) {
    return Fail(ErrorCode::kInvalidArgument, "threads: expected 0 (all usable cores) to " +
                                                 std::to_string(kMostThreads) + ", found " +
                                                 std::to_string(options.n_threads));
  }
  const int n_threads = options.n_threads == 0 ? UsableCores() : options.n_threads;
  return std::unique_ptr<Compute>(new Compute(n_threads, options.pin, table));
}

const char* Compute::isa() const { return kernels_->isa; }

}  // namespace minicpm
