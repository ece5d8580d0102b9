// Implementation of affinity.h and of UsableCores: the affinity mask, then the tightest quota of any control group
// above us.
#include "os/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "os/thread_pool.h"

namespace minicpm {
namespace {

struct Membership {
  bool v2 = false;
  std::string controllers;  // v1: "cpu,cpuacct"
  std::string path;         // "/user.slice/..."
};

std::vector<Membership> ParseMemberships(std::string_view text) {
  std::vector<Membership> result;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    Membership m;
    m.controllers = std::string(line.substr(first + 1, second - first - 1));
    m.path = std::string(line.substr(second + 1));
    m.v2 = m.controllers.empty() && line.substr(0, first) == "0";
    if (m.path.empty() || m.path[0] != '/' || m.path.find("..") != std::string::npos) continue;
    result.push_back(std::move(m));
  }
  return result;
}

bool HasController(const std::string& list, std::string_view name) {
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (std::string_view(list).substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

// Calls fn(folder) for the group's folder and every one above it up to the mount point.
template <class Fn>
void WalkUp(const std::string& mount, std::string path, Fn fn) {
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    fn(mount + path);
    if (path.empty()) return;
    path.erase(path.rfind('/'));
  }
}

// Reads an unsigned number; 0 for "max", nonsense, or an empty text.
uint64_t ParseNumber(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

}  // namespace

std::string ReadSmallFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return {};
  std::string text(size_t{64} << 10, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cores.push_back(i);
    }
  }
  if (cores.empty()) {
    const int n = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int i = 0; i < n; ++i) cores.push_back(i);
  }
  return cores;
}

bool PinCurrentThread(int core) {
  if (core < 0 || core >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

double CgroupCpuLimit(std::string_view proc_cgroup, const std::string& root) {
  double limit = 0;
  const auto take = [&](double quota, double period) {
    if (quota > 0 && period > 0 && (limit == 0 || quota / period < limit)) limit = quota / period;
  };
  for (const Membership& m : ParseMemberships(proc_cgroup)) {
    if (m.v2) {
      WalkUp(root, m.path, [&](const std::string& folder) {
        const std::string text = ReadSmallFile(folder + "/cpu.max");  // "max 100000" or "150000 100000"
        const size_t space = text.find(' ');
        if (space == std::string::npos) return;
        take(static_cast<double>(ParseNumber(text)), static_cast<double>(ParseNumber(text.substr(space + 1))));
      });
    } else if (HasController(m.controllers, "cpu")) {
      for (const std::string& mount : {root + "/" + m.controllers, root + "/cpu"}) {
        WalkUp(mount, m.path, [&](const std::string& folder) {
          const std::string quota = ReadSmallFile(folder + "/cpu.cfs_quota_us");  // "-1" = none
          if (quota.empty() || quota[0] == '-') return;
          take(static_cast<double>(ParseNumber(quota)),
               static_cast<double>(ParseNumber(ReadSmallFile(folder + "/cpu.cfs_period_us"))));
        });
      }
    }
  }
  return limit;
}

uint64_t CgroupMemoryLeft(std::string_view proc_cgroup, const std::string& root) {
  uint64_t left = 0;
  const auto take = [&](uint64_t limit, uint64_t used) {
    constexpr uint64_t kNoLimit = uint64_t{1} << 60;  // v1 writes a huge number for "none"
    if (limit == 0 || limit >= kNoLimit) return;
    const uint64_t here = std::max<uint64_t>(limit > used ? limit - used : 0, 1);
    if (left == 0 || here < left) left = here;
  };
  for (const Membership& m : ParseMemberships(proc_cgroup)) {
    if (m.v2) {
      WalkUp(root, m.path, [&](const std::string& folder) {
        take(ParseNumber(ReadSmallFile(folder + "/memory.max")),
             ParseNumber(ReadSmallFile(folder + "/memory.current")));
      });
    } else if (HasController(m.controllers, "memory")) {
      WalkUp(root + "/memory", m.path, [&](const std::string& folder) {
        take(ParseNumber(ReadSmallFile(folder + "/memory.limit_in_bytes")),
             ParseNumber(ReadSmallFile(folder + "/memory.usage_in_bytes")));
      });
    }
  }
  return left;
}

int UsableCores() {
  const int allowed = static_cast<int>(AllowedCores().size());
  const double quota = CgroupCpuLimit(ReadSmallFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (quota <= 0 || quota >= allowed) return allowed;
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

}  // namespace minicpm
