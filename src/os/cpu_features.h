// What the CPU (and the operating system's saved state) can do, found out once at start. The only user is the kernel
// table's choice.
#pragma once

#include <string>

namespace minicpm {

struct CpuFeatures {
  // x86-64
  bool avx2 = false;    // AVX2 and FMA and F16C, with the OS saving YMM state
  bool avx512 = false;  // F, BW, VL, DQ with the OS saving ZMM state
  bool avx512_vnni = false;
  bool avx_vnni = false;
  // aarch64
  bool neon = false;
  bool dotprod = false;
  bool i8mm = false;
};

CpuFeatures DetectCpuFeatures();
// Marketing name, e.g. from /proc/cpuinfo; "unknown" when there is none.
std::string CpuModelName();

}  // namespace minicpm
