// Implementation of limits.h, and the main() of every benchmark program.
#include "limits.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "os/clock.h"

namespace minicpm::bench {
namespace {

struct Program {
  std::unique_ptr<Compute> compute;
  std::optional<ReadProbe> read;  // made when the first benchmark needs it: it holds 1 GiB
};

Program& TheProgram() {
  static Program program;
  return program;
}

double Measure(Limit limit) {
  Program& program = TheProgram();
  Compute& compute = *program.compute;
  if (limit == Limit::kF32) return MeasureF32GflopPerS(compute.pool(), compute.kernels(), 3, 10);
  if (limit == Limit::kInt8) return MeasureInt8GopPerS(compute.pool(), compute.kernels(), 3, 10);
  if (limit == Limit::kInt4) return MeasureInt4GopPerS(compute.pool(), compute.kernels(), 3, 10);
  if (!program.read.has_value()) {
    auto probe = ReadProbe::Create(compute.pool(), compute.kernels());
    if (!probe.has_value()) {
      std::fprintf(stderr, "%s\n", probe.error().message.c_str());
      std::exit(1);
    }
    program.read.emplace(std::move(probe).value());
  }
  return program.read->MeasureGbPerS(3);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

bool Start(int* argc, char** argv) {
  ComputeOptions options;
  options.pin = true;
  std::string isa;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--threads=")) {
      const std::string_view number = arg.substr(10);
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.n_threads);
      if (error != std::errc{} || end != number.data() + number.size()) {
        std::fprintf(stderr, "--threads: expected a number, found '%s'\n", argv[i] + 10);
        return false;
      }
    } else if (arg.starts_with("--isa=")) {
      isa = arg.substr(6);
    } else if (arg == "--no-pin") {
      options.pin = false;
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  options.isa = isa;
  auto compute = Compute::Create(options);
  if (!compute.has_value()) {
    std::fprintf(stderr, "%s\n", compute.error().message.c_str());
    return false;
  }
  TheProgram().compute = std::move(compute).value();
  return true;
}

Compute& TheCompute() { return *TheProgram().compute; }

void RunAgainst(benchmark::State& state, Limit limit, double units, FunctionRef<void()> work) {
  work();  // scratch memory grows, pages are touched
  std::vector<double> rates;
  std::vector<double> limits;
  std::vector<double> shares;
  double before = Measure(limit);
  for (auto _ : state) {
    const double start = NowMs();
    work();
    const double ms = NowMs() - start;
    state.SetIterationTime(ms / 1e3);
    const double after = Measure(limit);
    const double rate = units / (ms * 1e6);
    rates.push_back(rate);
    limits.push_back((before + after) / 2);
    shares.push_back(rate / limits.back());
    before = after;
  }
  const char* const unit = limit == Limit::kF32 ? "GFLOP/s" : limit == Limit::kRead ? "GB/s" : "GOP/s";
  state.counters[unit] = Median(rates);
  state.counters["limit"] = Median(limits);
  state.counters["share"] = Median(shares);
  state.counters["best_share"] = shares.empty() ? 0 : *std::max_element(shares.begin(), shares.end());
}

}  // namespace minicpm::bench

int main(int argc, char** argv) {
  if (!minicpm::bench::Start(&argc, argv)) return 2;
  benchmark::AddCustomContext("isa", minicpm::bench::TheCompute().kernels().isa);
  benchmark::AddCustomContext("threads", std::to_string(minicpm::bench::TheCompute().pool().size()));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
