// The AVX-VNNI kernels with the one instruction that AVX2 lacks spelled out, so that tests can run the rest of them.
// Not part of the library.
#define MINICPM_EMULATE_VNNI
#define avx_vnni_qmatmul avx_vnni_emulated_qmatmul
#include "kernels/qmatmul/qmatmul_avx_vnni.cc"  // NOLINT(bugprone-suspicious-include)
