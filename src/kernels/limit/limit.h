// The fastest this instruction set can read memory and multiply-add, with nothing else in the way: what the other
// kernels' shares are measured against. Useful for measuring only.
#pragma once

#include <cstdint>

namespace minicpm::kernels {

struct LimitKernels {
  // Reads `bytes` (a multiple of 256) from `data` (64-byte aligned) once, in order; the xor of all 64-bit words.
  uint64_t (*read)(const void* data, int64_t bytes);
  // `turns` turns of independent float32 multiply-adds in registers, flops_per_turn operations each.
  float (*multiply_add)(int64_t turns);
  int64_t flops_per_turn;
  // The same for 8-bit integers, a multiplication and an addition counting two, by the instructions that a product of 8
  // bits by 8 needs at least, and 4 by 8: the latter may add several products in 16 bits before it widens them.
  int32_t (*int8_mix)(int64_t turns);
  int64_t int8_ops_per_turn;
  int32_t (*int4_mix)(int64_t turns);
  int64_t int4_ops_per_turn;
};

#define MINICPM_ISA(name) extern const LimitKernels name##_limit;
#include "kernels/isa.inc"

}  // namespace minicpm::kernels
