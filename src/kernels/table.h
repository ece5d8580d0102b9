// KernelTable: for one instruction set, the kernels of every family. Chosen once at start (ops/compute.h), never per
// call. Kernels work on raw pointers, use one thread, allocate nothing. Not the place for shapes and threads: see
// src/ops.
#pragma once

#include <span>

namespace minicpm::kernels {

struct AttentionKernels;
struct ConvertKernels;
struct DeltaKernels;
struct ElementwiseKernels;
struct LimitKernels;
struct MatmulKernels;
struct NormKernels;
struct QAttentionKernels;
struct QMatmulKernels;

struct KernelTable {
  const char* isa;  // "avx2", "scalar", ...: the name that --isa takes
  const MatmulKernels* matmul;
  const AttentionKernels* attention;
  const NormKernels* norm;
  const ElementwiseKernels* elementwise;
  const ConvertKernels* convert;
  const LimitKernels* limit;
  const QMatmulKernels* qmatmul;
  const QAttentionKernels* qattention;
  const DeltaKernels* delta;
};

// All tables compiled into this program, best first; the last one is "scalar" and runs everywhere.
// Requires of the caller: only use a table whose instruction set this CPU has.
std::span<const KernelTable> KernelTables();

}  // namespace minicpm::kernels
