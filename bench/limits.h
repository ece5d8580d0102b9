// What every benchmark program shares: a pinned Compute, and this machine's limits measured right before and right
// after the timed work, so that a share is never quoted against a figure from a quieter hour. Not a place for
// benchmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/function_ref.h"
#include "benchmark/benchmark.h"
#include "ops/compute.h"
#include "probe/probe.h"

namespace minicpm::bench {

// Options that all programs take besides Google Benchmark's own: --threads=N (default: usable cores), --isa=NAME,
// --no-pin. Returns false (and says why on stderr) when the command line is wrong or the instruction set is missing.
bool Start(int* argc, char** argv);

// The Compute made by Start(). Lifetime: the program.
Compute& TheCompute();

enum class Limit { kF32, kInt8, kInt4, kRead };

// Runs `work` once per iteration, each between two measurements of the limit, and reports: rate (10^9 units a second; a
// unit is an operation or a byte, `units` of them per call), limit, and share = rate / limit, all as medians over the
// iterations, and best_share. The time that Google Benchmark prints is that of the work alone.
void RunAgainst(benchmark::State& state, Limit limit, double units, FunctionRef<void()> work);

}  // namespace minicpm::bench
