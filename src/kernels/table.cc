// The kernel tables, generated from the roster isa.inc.
#include "kernels/table.h"

#include "kernels/attention/attention.h"
#include "kernels/convert/convert.h"
#include "kernels/delta/delta.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/limit/limit.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/norm.h"
#include "kernels/qattention/qattention.h"
#include "kernels/qmatmul/qmatmul.h"

namespace minicpm::kernels {
namespace {

constexpr KernelTable kTables[] = {
#define MINICPM_ISA_OVER(name, base)                                                            \
  {#name,           &base##_matmul, &base##_attention, &base##_norm,       &base##_elementwise, \
   &base##_convert, &name##_limit,  &name##_qmatmul,   &base##_qattention, &base##_delta},
#define MINICPM_ISA(name) MINICPM_ISA_OVER(name, name)
#include "kernels/isa.inc"
};

}  // namespace

std::span<const KernelTable> KernelTables() { return kTables; }

}  // namespace minicpm::kernels
