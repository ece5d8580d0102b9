// Memory figures of this process and this machine, in bytes. Not an allocator.
#pragma once

#include <cstdint>

namespace minicpm {

// Largest resident set so far; 0 when the system does not tell.
uint64_t PeakResidentBytes();
uint64_t ResidentBytes();
// Memory that can be had without swapping (MemAvailable, cut to the cgroup limit); 0 when unknown.
uint64_t AvailableMemoryBytes();

}  // namespace minicpm
