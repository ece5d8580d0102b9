// Which cores this process may use, and tying a thread to one of them. Not a scheduler.
// Cgroup files are read through a root folder so that tests can bring their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minicpm {

// Core numbers in this thread's affinity mask, ascending; never empty.
std::vector<int> AllowedCores();
// Ties the calling thread to `core`; false when the system refuses.
bool PinCurrentThread(int core);

// Tells the core that we spin.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// CPU time the control groups grant, in cores, or 0 when there is no limit. `proc_cgroup` is the text of
// /proc/self/cgroup, `root` the folder where the hierarchy is mounted (/sys/fs/cgroup).
double CgroupCpuLimit(std::string_view proc_cgroup, const std::string& root);
// The smallest memory limit above this process in bytes, less what that group uses already; 0 when there is none.
uint64_t CgroupMemoryLeft(std::string_view proc_cgroup, const std::string& root);
// Up to 64 KiB of a small file such as those in /proc; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path);

}  // namespace minicpm
