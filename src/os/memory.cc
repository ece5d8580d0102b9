// Implementation of memory.h from /proc; figures there are in KiB.
#include "os/memory.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "os/affinity.h"

namespace minicpm {
namespace {

// Value of the line "`key` 123 kB" in bytes; 0 when there is none.
uint64_t KibField(const std::string& text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + key.size(), nullptr, 10) * 1024;
}

}  // namespace

uint64_t PeakResidentBytes() { return KibField(ReadSmallFile("/proc/self/status"), "VmHWM:"); }
uint64_t ResidentBytes() { return KibField(ReadSmallFile("/proc/self/status"), "VmRSS:"); }

uint64_t AvailableMemoryBytes() {
  const uint64_t machine = KibField(ReadSmallFile("/proc/meminfo"), "MemAvailable:");
  const uint64_t group = CgroupMemoryLeft(ReadSmallFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (machine == 0 || group == 0) return std::max(machine, group);
  return std::min(machine, group);
}

}  // namespace minicpm
