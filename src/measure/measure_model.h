// What a model does on this machine, beside what this machine can do at most: load, one slice, prefill, decoding alone
// and in a batch, memory. Definitions: docs/performance.md. Not for kernels one by one: bench/ has those.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/log.h"
#include "base/status.h"
#include "tensor/tensor.h"

namespace minicpm {

struct ModelBenchOptions {
  int n_threads = 0;  // 0 = all usable cores
  bool pin = false;
  std::string isa;  // "" = best available
  DType kv_dtype = DType::kF16;
  int64_t slices = 1;      // views encoded for one time
  int64_t prompt = 512;    // tokens
  int64_t generate = 64;   // tokens of each sequence
  int64_t depth = 0;       // positions held before decoding starts
  int64_t context = 2048;  // reserved for kv_mb and peak_rss_mb
  int repeat = 3;
  bool cold = true;    // also load with the files dropped from the page cache
  bool quick = false;  // limits measured on little memory and in few rounds: for tests, not for quoting
};

// Median, least and most of the repetitions.
struct Figure {
  double median = 0;
  double min = 0;
  double max = 0;
};
Figure FigureOf(std::vector<double> values);

struct ModelBenchReport {
  std::string family;
  std::string isa;
  int n_threads = 0;
  std::string vision_dtype;    // of most weights of the tower's products
  std::string language_dtype;  // the same of the language model's layers
  std::string head_dtype;

  struct {
    Figure read_gb_s, f32_gflop_s, int8_gop_s, int4_gop_s;
  } machine;
  Figure load_ms;            // files in the page cache; until a sequence can be fed
  double load_cold_ms = -1;  // -1: not measured
  Figure first_token_ms;     // load and one decoded token after a prompt of one token
  double first_token_cold_ms = -1;
  struct {
    Figure ms, gop_s, share;
    double gop = 0;
    std::string limit;  // key of `machine` that the share is of
  } image_slice;
  struct {
    Figure tok_s, gop_s, share;
    std::string limit;
  } prefill;
  struct {
    Figure tok_s, gb_s, share;
    uint64_t bytes_per_token = 0;
  } decode;
  struct Batch {
    int n = 0;
    Figure tok_s;  // of all sequences together
  };
  std::vector<Batch> decode_batch;
  double peak_rss_mb = 0;
  double kv_mb = 0;
  uint64_t bundle_bytes = 0;
};

// Errors: those of the engine; kInvalidArgument when a size makes no sense for the model. `progress` hears what is
// being done, a short line each.
Result<ModelBenchReport> RunModelBench(const std::string& folder, const ModelBenchOptions& options, LogSink* log,
                                       FunctionRef<void(const std::string&)> progress);

}  // namespace minicpm
