// Implementation of measure_model.h: load first (cold, then warm), then one pass that shows what a run needs of memory,
// then each speed between two measurements of the limit it is held against.
#include "measure/measure_model.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "engine/engine.h"
#include "engine/session.h"
#include "image/slicing.h"
#include "measure/nominal_work.h"
#include "models/blocks/model_config.h"
#include "ops/compute.h"
#include "os/clock.h"
#include "os/memory.h"
#include "os/page_cache.h"
#include "probe/probe.h"
#include "sampling/sampler.h"

namespace minicpm {
namespace {

constexpr int kBatches[] = {1, 4, 8};
constexpr int64_t kMostBatch = 8;
constexpr int64_t kPoolBlock = 64;  // positions that the cache hands out at once

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Plain ids, the same every time, none of them special.
std::vector<int32_t> SomeTokens(int64_t n, int64_t n_vocab) {
  std::vector<int32_t> ids;
  uint64_t state = 12345;
  const auto most = static_cast<uint64_t>(std::max<int64_t>(n_vocab * 9 / 10, 1));
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<int32_t>((state >> 33) % most));
  }
  return ids;
}

uint64_t FolderBytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code no_size;
    if (it->is_regular_file(no_size)) bytes += it->file_size(no_size);
  }
  return bytes;
}

enum class Limit { kRead, kF32, kInt8, kInt4 };

// The mix of instructions that products with weights of this dtype are made of.
Limit MixOf(const std::string& dtype) {
  return dtype == NameOf(DType::kInt8Packed)   ? Limit::kInt8
         : dtype == NameOf(DType::kInt4Packed) ? Limit::kInt4
                                               : Limit::kF32;
}

const char* KeyOf(Limit limit) {
  constexpr const char* kKeys[] = {"read_gb_s", "f32_gflop_s", "int8_gop_s", "int4_gop_s"};
  return kKeys[static_cast<int>(limit)];
}

// This machine's limits, measured again and again with threads of their own; keeps every figure for the report.
class Limits {
 public:
  static Result<Limits> Create(const ModelBenchOptions& o) {
    Limits limits;
    MINICPM_ASSIGN(limits.compute_, Compute::Create({.n_threads = o.n_threads, .pin = o.pin, .isa = o.isa}));
    const size_t bytes = o.quick ? size_t{64} << 20 : ReadProbe::kDefaultBytes;
    MINICPM_ASSIGN(limits.read_, ReadProbe::Create(limits.compute_->pool(), limits.compute_->kernels(), bytes));
    limits.rounds_ = o.quick ? 3 : 7;
    limits.milliseconds_ = o.quick ? 2 : 30;
    return limits;
  }
  double Measure(Limit limit) {
    ThreadPool& pool = compute_->pool();
    const kernels::KernelTable& kernels = compute_->kernels();
    double value = 0;
    switch (limit) {
      case Limit::kRead:
        value = read_->MeasureGbPerS(rounds_);
        break;
      case Limit::kF32:
        value = MeasureF32GflopPerS(pool, kernels, rounds_, milliseconds_);
        break;
      case Limit::kInt8:
        value = MeasureInt8GopPerS(pool, kernels, rounds_, milliseconds_);
        break;
      case Limit::kInt4:
        value = MeasureInt4GopPerS(pool, kernels, rounds_, milliseconds_);
        break;
    }
    values_[static_cast<int>(limit)].push_back(value);
    return value;
  }
  void MeasureAll() {
    for (const Limit limit : {Limit::kRead, Limit::kF32, Limit::kInt8, Limit::kInt4}) Measure(limit);
  }
  Figure Of(Limit limit) const { return FigureOf(values_[static_cast<int>(limit)]); }

 private:
  std::unique_ptr<Compute> compute_;
  std::optional<ReadProbe> read_;
  int rounds_ = 7;
  double milliseconds_ = 30;
  std::vector<double> values_[4];
};

// Seconds of `work`, `repeat` times, and the limit around each time: the mean of before and after.
struct Timed {
  std::vector<double> seconds;
  std::vector<double> limits;
};

template <class Work>
Result<Timed> TimeBesideLimit(Limits& limits, Limit limit, int repeat, Work work) {
  Timed timed;
  double before = limits.Measure(limit);
  for (int i = 0; i < repeat; ++i) {
    MINICPM_ASSIGN(const double seconds, work());
    const double after = limits.Measure(limit);
    timed.seconds.push_back(std::max(seconds, 1e-9));
    timed.limits.push_back((before + after) / 2);
    before = after;
  }
  return timed;
}

// amount / seconds of every time, and that as a share of the limit beside it (amount in units of 10^9).
Figure RateOf(const Timed& timed, double amount) {
  std::vector<double> rates;
  for (const double s : timed.seconds) rates.push_back(amount / s);
  return FigureOf(rates);
}
Figure ShareOf(const Timed& timed, double amount) {
  std::vector<double> shares;
  for (size_t i = 0; i < timed.seconds.size(); ++i) shares.push_back(amount / timed.seconds[i] / timed.limits[i]);
  return FigureOf(shares);
}

// One loaded model and everything that is done with it.
class Bench {
 public:
  explicit Bench(const ModelBenchOptions& o) : o_(o) {}

  Status Load(const std::string& folder, LogSink* log) {
    backend_.reset();
    engine_.reset();
    EngineOptions engine_options;
    engine_options.log = log;
    MINICPM_ASSIGN(engine_, Engine::Open(folder, engine_options));
    BackendOptions b;
    b.n_threads = o_.n_threads;
    b.pin = o_.pin;
    b.isa = o_.isa;
    b.kv_dtype = o_.kv_dtype;
    b.context = std::max({RoundUp(o_.context, kPoolBlock), RoundUp(o_.prompt, kPoolBlock),
                          kMostBatch * RoundUp(SequenceLength(), kPoolBlock)});
    MINICPM_ASSIGN(backend_, engine_->NewBackend(b));
    logits_.resize(static_cast<size_t>(kMostBatch * backend_->shape().n_vocab));
    return {};
  }

  // Seconds that one decoded token takes after a prompt of one token.
  Status FirstToken() {
    MINICPM_ASSIGN(const SeqId seq, backend_->NewSeq(2));
    const auto ids = SomeTokens(1, backend_->shape().n_vocab);
    Status fed = Feed(seq, ids);
    if (fed.has_value()) fed = Feed(seq, ids);
    backend_->Drop(seq);
    return fed;
  }

  Status PrepareViews() {
    const ModelConfig& c = engine_->config();
    const int side = static_cast<int>(c.scale_resolution / c.vision.patch_px);
    grid_ = {side, side};
    patches_.resize(static_cast<size_t>(grid_.count() * c.vision.n_patch_values()));
    uint32_t state = 1;
    for (float& x : patches_) {
      state = state * 1664525 + 1013904223;
      x = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    }
    positions_.resize(static_cast<size_t>(grid_.count()));
    FillPositionIds(grid_, static_cast<int>(c.vision.n_side()), positions_.data());
    rows_.resize(static_cast<size_t>(backend_->shape().n_image_rows * backend_->shape().n_embed));
    return {};
  }

  Result<double> EncodeSlices(int64_t n) {
    const double start_ms = NowMs();
    for (int64_t i = 0; i < n; ++i) {
      VisionView view;
      view.patches = {patches_.data(), grid_.count(), engine_->config().vision.n_patch_values()};
      view.position_ids = positions_.data();
      view.grid_rows = grid_.rows;
      view.grid_cols = grid_.cols;
      const VisionGroup group(&view, 1);
      VisionRequest request;
      request.groups = {&group, 1};
      request.out = Matrix(rows_.data(), backend_->shape().n_image_rows, backend_->shape().n_embed);
      MINICPM_ASSIGN(const std::unique_ptr<Job> job, backend_->BeginVision(request));
      for (bool finished = false; !finished;) {
        MINICPM_ASSIGN(finished, job->Step(NowMs() + 1e9));
      }
    }
    return (NowMs() - start_ms) / 1e3;
  }

  Result<double> Prefill() {
    MINICPM_ASSIGN(const SeqId seq, backend_->NewSeq(o_.prompt));
    const auto ids = SomeTokens(o_.prompt, backend_->shape().n_vocab);
    const double start_ms = NowMs();
    const Status fed = Feed(seq, ids);
    const double seconds = (NowMs() - start_ms) / 1e3;
    backend_->Drop(seq);
    if (!fed.has_value()) return std::unexpected(fed.error());
    return seconds;
  }

  // `n` sequences advance together, greedily, generate tokens each; seconds of all steps.
  Result<double> Decode(int n) {
    std::vector<SeqId> seqs;
    const auto drop = [&] {
      for (const SeqId seq : seqs) backend_->Drop(seq);
    };
    auto seconds = DecodeTogether(n, seqs);
    drop();
    return seconds;
  }

  // Positions that a sequence of Decode holds at its middle step.
  double MeanDepth() const { return static_cast<double>(Start()) + static_cast<double>(o_.generate + 1) / 2; }
  double KvBytesPerPosition() const { return static_cast<double>(backend_->BytesFor(kPoolBlock)) / kPoolBlock; }
  const Engine& engine() const { return *engine_; }
  Backend& backend() { return *backend_; }
  int64_t n_patches() const { return grid_.count(); }

 private:
  int64_t Start() const { return std::max<int64_t>(o_.depth, 1); }
  int64_t SequenceLength() const { return Start() + o_.generate + 1; }

  // In chunks; logits of the last row go to the front of logits_.
  Status Feed(SeqId seq, std::span<const int32_t> ids) {
    while (!ids.empty()) {
      const size_t n = std::min(ids.size(), static_cast<size_t>(SessionOptions{}.prefill_chunk));
      StepItem item;
      item.seq = seq;
      item.token_ids = ids.first(n);
      if (n == ids.size()) {
        item.want_logits = WantRows::kLast;
        item.logits = Row(0);
      }
      MINICPM_TRY(backend_->Step({&item, 1}));
      ids = ids.subspan(n);
    }
    return {};
  }

  Result<double> DecodeTogether(int n, std::vector<SeqId>& seqs) {
    const auto ids = SomeTokens(Start() + n, backend_->shape().n_vocab);
    std::vector<int32_t> next(static_cast<size_t>(n));
    std::vector<StepItem> items(static_cast<size_t>(n));
    Sampler sampler({.temperature = 0.0f}, backend_->shape().n_vocab);
    for (int i = 0; i < n; ++i) {
      MINICPM_ASSIGN(const SeqId seq, backend_->NewSeq(SequenceLength()));
      seqs.push_back(seq);
      // Every sequence begins elsewhere, so that their answers differ.
      MINICPM_TRY(Feed(seq, std::span(ids).subspan(static_cast<size_t>(i), static_cast<size_t>(Start()))));
      const auto at = static_cast<size_t>(i);
      next[at] = sampler.Sample({Row(0).data, static_cast<size_t>(Row(0).cols)});
      items[at] = {.seq = seq, .token_ids = {&next[at], 1}, .want_logits = WantRows::kLast, .logits = Row(i)};
    }
    MINICPM_TRY(backend_->Step(items));  // untimed: memory for this number of rows is found
    const double start_ms = NowMs();
    for (int64_t step = 0; step < o_.generate; ++step) {
      for (int i = 0; i < n; ++i) {
        next[static_cast<size_t>(i)] = sampler.Sample({Row(i).data, static_cast<size_t>(Row(i).cols)});
      }
      MINICPM_TRY(backend_->Step(items));
    }
    return (NowMs() - start_ms) / 1e3;
  }

  Matrix Row(int64_t i) {
    const int64_t width = backend_->shape().n_vocab;
    return Matrix(logits_.data() + i * width, 1, width);
  }

  const ModelBenchOptions& o_;
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Backend> backend_;
  std::vector<float> logits_;
  PatchGrid grid_;
  std::vector<float> patches_;
  std::vector<int32_t> positions_;
  std::vector<float> rows_;
};

Status CheckOptions(const ModelBenchOptions& o, const ModelConfig& c) {
  const int64_t longest = std::max({o.prompt, std::max<int64_t>(o.depth, 1) + o.generate + 1, o.context});
  if (longest > c.decoder.max_positions) {
    return Fail(ErrorCode::kInvalidArgument, "bench: a sequence of " + std::to_string(longest) +
                                                 " positions is more than the model's " +
                                                 std::to_string(c.decoder.max_positions));
  }
  if (o.slices < 1 || o.prompt < 1 || o.generate < 1 || o.depth < 0 || o.context < 1 || o.repeat < 1) {
    return Fail(ErrorCode::kInvalidArgument, "bench: slices, prompt, generate, context and repeat must be at least 1");
  }
  return {};
}

Status MeasureLoading(Bench& bench, const std::string& folder, const ModelBenchOptions& o, LogSink* log,
                      FunctionRef<void(const std::string&)> progress, ModelBenchReport& report) {
  if (o.cold) {
    progress("loading from the disk ...");
    std::error_code ec;
    for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
      std::error_code no_type;
      if (!it->is_regular_file(no_type)) continue;
      MINICPM_TRY(DropFromPageCache(it->path().string()));
    }
    const double start_ms = NowMs();
    MINICPM_TRY(bench.Load(folder, log));
    report.load_cold_ms = NowMs() - start_ms;
    MINICPM_TRY(bench.FirstToken());
    report.first_token_cold_ms = NowMs() - start_ms;
  } else {
    MINICPM_TRY(bench.Load(folder, log));
    MINICPM_TRY(bench.FirstToken());  // brings the pages in
  }
  std::vector<double> loads, tokens;
  for (int i = 0; i < o.repeat; ++i) {
    progress("loading again ...");
    const double start_ms = NowMs();
    MINICPM_TRY(bench.Load(folder, nullptr));
    loads.push_back(NowMs() - start_ms);
    MINICPM_TRY(bench.FirstToken());
    tokens.push_back(NowMs() - start_ms);
  }
  report.load_ms = FigureOf(loads);
  report.first_token_ms = FigureOf(tokens);
  return {};
}

Status MeasureSlice(Bench& bench, Limits& limits, const ModelBenchOptions& o, ModelBenchReport& report) {
  const Limit mix = MixOf(report.vision_dtype);
  const auto n = static_cast<double>(o.slices);
  MINICPM_ASSIGN(const Timed timed,
                 TimeBesideLimit(limits, mix, o.repeat, [&] { return bench.EncodeSlices(o.slices); }));
  auto& r = report.image_slice;
  r.gop = SliceOps(bench.engine().config(), bench.n_patches()) / 1e9;
  std::vector<double> ms;
  for (const double s : timed.seconds) ms.push_back(s * 1e3 / n);
  r.ms = FigureOf(ms);
  r.gop_s = RateOf(timed, r.gop * n);
  r.share = ShareOf(timed, r.gop * n);
  r.limit = KeyOf(mix);
  return {};
}

Status MeasurePrefill(Bench& bench, Limits& limits, const ModelBenchOptions& o, ModelBenchReport& report) {
  const Limit mix = MixOf(report.language_dtype);
  MINICPM_ASSIGN(const Timed timed, TimeBesideLimit(limits, mix, o.repeat, [&] { return bench.Prefill(); }));
  auto& r = report.prefill;
  const double gop = PrefillOps(bench.engine().config(), 0, o.prompt) / 1e9;
  r.tok_s = RateOf(timed, static_cast<double>(o.prompt));
  r.gop_s = RateOf(timed, gop);
  r.share = ShareOf(timed, gop);
  r.limit = KeyOf(mix);
  return {};
}

Status MeasureDecode(Bench& bench, Limits& limits, const ModelBenchOptions& o, uint64_t weight_bytes,
                     FunctionRef<void(const std::string&)> progress, ModelBenchReport& report) {
  for (const int n : kBatches) {
    progress("decoding " + std::to_string(n) + (n == 1 ? " sequence ..." : " sequences ..."));
    MINICPM_ASSIGN(const Timed timed, TimeBesideLimit(limits, Limit::kRead, o.repeat, [&] { return bench.Decode(n); }));
    const Figure tok_s = RateOf(timed, static_cast<double>(n * o.generate));
    report.decode_batch.push_back({n, tok_s});
    if (n != 1) continue;
    auto& r = report.decode;
    const double bytes = static_cast<double>(weight_bytes) + bench.MeanDepth() * bench.KvBytesPerPosition();
    r.bytes_per_token = static_cast<uint64_t>(bytes);
    r.tok_s = tok_s;
    r.gb_s = RateOf(timed, bytes * static_cast<double>(o.generate) / 1e9);
    r.share = ShareOf(timed, bytes * static_cast<double>(o.generate) / 1e9);
  }
  return {};
}

}  // namespace

Figure FigureOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

Result<ModelBenchReport> RunModelBench(const std::string& folder, const ModelBenchOptions& options, LogSink* log,
                                       FunctionRef<void(const std::string&)> progress) {
  ModelBenchReport report;
  {
    MINICPM_ASSIGN(const ModelConfig config, ReadModelConfig(folder));
    MINICPM_TRY(CheckOptions(options, config));
  }
  Bench bench(options);
  MINICPM_TRY(MeasureLoading(bench, folder, options, log, progress, report));
  report.family = bench.engine().family_name();
  report.isa = bench.backend().isa();
  report.n_threads = bench.backend().n_threads();
  report.kv_mb = static_cast<double>(bench.backend().BytesFor(options.context)) / 1e6;
  report.bundle_bytes = FolderBytes(folder);
  const ModelSummary summary = bench.engine().Summary();
  uint64_t weight_bytes = 0;
  for (const ModelSummary::Part& part : summary.parts) {
    if (part.name == "vision") report.vision_dtype = part.matmul_dtype;
    if (part.name != "language") continue;
    report.language_dtype = part.matmul_dtype;
    report.head_dtype = part.head_dtype;
    weight_bytes = DecodeWeightBytes(bench.engine().config(), part.n_bytes, part.embedding_bytes);
  }

  // What a run with one picture takes; the probe's own memory comes later.
  progress("one pass for memory ...");
  MINICPM_TRY(bench.PrepareViews());
  MINICPM_TRY(bench.EncodeSlices(1));
  MINICPM_TRY(bench.Prefill());
  MINICPM_TRY(bench.FirstToken());
  report.peak_rss_mb = static_cast<double>(PeakResidentBytes()) / 1e6;

  MINICPM_ASSIGN(Limits limits, Limits::Create(options));
  progress("this machine's limits ...");
  limits.MeasureAll();
  progress("slices ...");
  MINICPM_TRY(MeasureSlice(bench, limits, options, report));
  progress("prefill ...");
  MINICPM_TRY(MeasurePrefill(bench, limits, options, report));
  MINICPM_TRY(MeasureDecode(bench, limits, options, weight_bytes, progress, report));
  limits.MeasureAll();
  report.machine = {limits.Of(Limit::kRead), limits.Of(Limit::kF32), limits.Of(Limit::kInt8), limits.Of(Limit::kInt4)};
  return report;
}

}  // namespace minicpm
