// Implementation of cpu_features.h by CPUID and XGETBV on x86-64, by the auxiliary vector on aarch64.
#include "os/cpu_features.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "os/affinity.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace minicpm {

#if defined(__x86_64__)
namespace {

// Extended control register 0: which register sets the operating system saves.
uint64_t SavedState() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool Bit(uint32_t word, int bit) { return (word >> bit & 1u) != 0; }

}  // namespace

CpuFeatures DetectCpuFeatures() {
  CpuFeatures f;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return f;
  const bool has_xgetbv = Bit(c, 27);
  const bool fma = Bit(c, 12);
  const bool avx = Bit(c, 28);
  const bool f16c = Bit(c, 29);
  const uint64_t saved = has_xgetbv ? SavedState() : 0;
  const bool ymm = (saved & 0x6) == 0x6;
  const bool zmm = (saved & 0xe6) == 0xe6;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return f;
  f.avx2 = ymm && avx && fma && f16c && Bit(b, 5);
  f.avx512 = f.avx2 && zmm && Bit(b, 16) && Bit(b, 17) && Bit(b, 30) && Bit(b, 31);
  f.avx512_vnni = f.avx512 && Bit(c, 11);
  const uint32_t max_subleaf = a;
  if (max_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) f.avx_vnni = f.avx2 && Bit(a, 4);
  return f;
}
#elif defined(__aarch64__)
CpuFeatures DetectCpuFeatures() {
  CpuFeatures f;
  const unsigned long caps = getauxval(AT_HWCAP);
  const unsigned long caps2 = getauxval(AT_HWCAP2);
  f.neon = (caps & HWCAP_ASIMD) != 0;
  f.dotprod = (caps & HWCAP_ASIMDDP) != 0;
#ifdef HWCAP2_I8MM
  f.i8mm = (caps2 & HWCAP2_I8MM) != 0;
#endif
  return f;
}
#else
CpuFeatures DetectCpuFeatures() { return {}; }
#endif

std::string CpuModelName() {
  const std::string text = ReadSmallFile("/proc/cpuinfo");
  constexpr std::string_view kKey = "model name";
  const size_t key = text.find(kKey);
  if (key == std::string::npos) return "unknown";
  const size_t colon = text.find(':', key);
  const size_t end = std::min(text.find('\n', key), text.size());
  if (colon == std::string::npos || colon > end) return "unknown";
  const size_t begin = text.find_first_not_of(" \t", colon + 1);
  if (begin == std::string::npos || begin >= end) return "unknown";
  return text.substr(begin, end - begin);
}

}  // namespace minicpm
