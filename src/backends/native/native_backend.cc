// Implementation of native_backend.h: sequences and steps here, jobs in native_vision.cc and native_audio.cc.
#include "backends/native/native_backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/native/native_audio.h"
#include "backends/native/native_vision.h"
#include "models/blocks/sequence_pool.h"
#include "ops/embedding.h"
#include "os/memory.h"

namespace minicpm {
namespace {

class NativeBackend : public Backend {
 public:
  NativeBackend(std::shared_ptr<const NativeModel> model, std::unique_ptr<Compute> compute, DType kv_dtype,
                int64_t kv_tokens)
      : model_(std::move(model)),
        compute_(std::move(compute)),
        pool_(DecoderSequenceLayout(model_->config().decoder, kv_dtype), kv_tokens) {}

  Caps caps() const override {
    return {.ragged_batch = true,
            .rewind = !recurrent(),
            .preemptible = true,
            .batch_exact = true,
            .hidden = true,
            .vision = true,
            .audio = model_->config().audio.has_value()};
  }
  BackendShape shape() const override {
    const ModelConfig& c = model_->config();
    return {c.decoder.n_embed, c.decoder.n_vocab, c.resampler.n_queries, c.audio.has_value() ? c.audio->n_mels : 0};
  }
  const char* isa() const override { return compute_->isa(); }
  int n_threads() const override { return compute_->pool().size(); }
  void set_tap(Tap* tap) override { compute_->set_tap(tap); }

  Result<std::unique_ptr<Job>> BeginVision(const VisionRequest& request) override {
    return NewVisionJob(*model_, *compute_, request);
  }
  Result<std::unique_ptr<Job>> BeginAudio(const AudioRequest& request) override {
    return NewAudioJob(*model_, *compute_, streams_, request);
  }
  Result<AudioStreamId> NewAudioStream() override {
    if (!model_->config().audio.has_value()) return Fail(ErrorCode::kUnsupported, "this model has no audio tower");
    return streams_.New(*model_->config().audio);
  }
  void ResetAudioStream(AudioStreamId stream) override {
    if (WhisperCache* const cache = streams_.Find(stream); cache != nullptr) cache->Clear();
  }
  void DropAudioStream(AudioStreamId stream) override { streams_.Drop(stream); }

  Result<SeqId> NewSeq(int64_t context) override { return pool_.New(context); }
  Result<SeqId> Fork(SeqId seq) override { return pool_.Fork(seq); }
  Result<int64_t> Rewind(SeqId seq, int64_t n) override { return pool_.Rewind(seq, n); }
  void Mark(SeqId seq) override { pool_.Mark(seq); }
  void Drop(SeqId seq) override { pool_.Drop(seq); }
  int64_t Position(SeqId seq) const override { return pool_.length(seq); }
  uint64_t BytesFor(int64_t n) const override {
    return static_cast<uint64_t>((n + kKvBlockTokens - 1) / kKvBlockTokens) * pool_.layout().block_bytes() +
           pool_.layout().recurrent_bytes(n);
  }
  Status Step(std::span<StepItem> items) override;

 private:
  // Layers with a recurrent state go back to restore points only, and the pool takes those between steps.
  bool recurrent() const { return !pool_.layout().recurrent_floats.empty(); }
  bool CrossesRestorePoint() const;
  Status StepByParts(std::span<const StepItem> items);
  void RunPlanned(std::span<const StepItem> items);
  Status Plan(std::span<const StepItem> items);
  void FillHidden(std::span<const StepItem> items, Matrix hidden);
  void FillOutputs(std::span<const StepItem> items, ConstMatrix hidden);
  void FillLogits(const StepItem& item, const DecoderRun& run, ConstMatrix hidden);
  void FillSharedLogits(std::span<const StepItem> items, int64_t n_rows, ConstMatrix hidden);

  std::shared_ptr<const NativeModel> model_;
  std::unique_ptr<Compute> compute_;
  SequencePool pool_;
  NativeAudioStreams streams_;
  std::vector<DecoderRun> runs_;  // of the current step; kept to reuse its memory
};

// Checks everything before anything moves, and lays the items out as rows of one hidden matrix.
Status NativeBackend::Plan(std::span<const StepItem> items) {
  const DecoderConfig& c = model_->config().decoder;
  runs_.clear();
  int64_t row = 0;
  for (const StepItem& item : items) {
    if (!pool_.Contains(item.seq)) {
      return Fail(ErrorCode::kInvalidArgument, "sequence " + std::to_string(item.seq) + " does not exist");
    }
    if (item.n() < 1 || (item.token_ids.empty() && item.embeddings.cols != c.n_embed)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "a step item needs token ids or embedding rows of width " + std::to_string(c.n_embed));
    }
    for (const int32_t id : item.token_ids) {
      if (id < 0 || id >= c.n_vocab) {
        return Fail(ErrorCode::kInvalidArgument,
                    "token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(c.n_vocab));
      }
    }
    int64_t position = pool_.length(item.seq);
    for (const DecoderRun& run : runs_) {
      if (run.seq == item.seq) position = run.first_position + run.n;
    }
    runs_.push_back({item.seq, row, item.n(), position});
    row += item.n();
  }
  for (size_t i = 0; i < runs_.size(); ++i) {
    const DecoderRun& run = runs_[i];
    MINICPM_TRY(pool_.Prepare(run.seq, run.first_position + run.n - pool_.length(run.seq)));
  }
  return {};
}

void NativeBackend::FillHidden(std::span<const StepItem> items, Matrix hidden) {
  for (size_t i = 0; i < items.size(); ++i) {
    const Matrix rows = hidden.Rows(runs_[i].row, runs_[i].n);
    if (!items[i].token_ids.empty()) {
      GatherRows(*compute_, model_->decoder().embed_tokens, items[i].token_ids, rows);
      continue;
    }
    for (int64_t r = 0; r < rows.rows; ++r) {
      std::memcpy(rows.row(r), items[i].embeddings.row(r), static_cast<size_t>(rows.cols) * sizeof(float));
    }
  }
  Report(*compute_, {"llm.embed", -1, -1}, hidden);
}

namespace {

// Rows of one item whose logits may be computed together with those of others.
constexpr int64_t kMostSharedRows = 16;

ConstMatrix Wanted(WantRows want, const DecoderRun& run, ConstMatrix hidden) {
  return want == WantRows::kAll ? hidden.Rows(run.row, run.n) : hidden.Rows(run.row + run.n - 1, 1);
}

// Rows of logits that an item shares with others: 0 for none, or for many.
int64_t SharedRows(const StepItem& item) {
  if (item.want_logits == WantRows::kNone) return 0;
  const int64_t n = item.want_logits == WantRows::kAll ? item.n() : 1;
  return n <= kMostSharedRows ? n : 0;
}

}  // namespace

void NativeBackend::FillLogits(const StepItem& item, const DecoderRun& run, ConstMatrix hidden) {
  ArenaScope scope(compute_->arena());
  const ConstMatrix rows = Wanted(item.want_logits, run, hidden);
  Matrix normed = compute_->arena().NewMatrix(rows.rows, rows.cols);
  FinalNorm(*compute_, model_->config().decoder, model_->decoder(), rows, normed);
  Report(*compute_, {"llm.norm", -1, -1}, normed);
  Logits(*compute_, model_->decoder(), normed, item.logits);
  Report(*compute_, {"llm.logits", -1, -1}, item.logits);
}

// The head is read once for all of them: with one row each, that is most of the work.
void NativeBackend::FillSharedLogits(std::span<const StepItem> items, int64_t n_rows, ConstMatrix hidden) {
  const DecoderConfig& c = model_->config().decoder;
  ArenaScope scope(compute_->arena());
  Matrix normed = compute_->arena().NewMatrix(n_rows, c.n_embed);
  Matrix logits = compute_->arena().NewMatrix(n_rows, c.n_vocab);
  int64_t row = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t n = SharedRows(items[i]);
    if (n == 0) continue;
    FinalNorm(*compute_, c, model_->decoder(), Wanted(items[i].want_logits, runs_[i], hidden), normed.Rows(row, n));
    row += n;
  }
  Logits(*compute_, model_->decoder(), normed, logits);
  row = 0;
  for (const StepItem& item : items) {
    const int64_t n = SharedRows(item);
    for (int64_t r = 0; r < n; ++r, ++row) {
      std::memcpy(item.logits.row(r), logits.row(row), static_cast<size_t>(c.n_vocab) * sizeof(float));
    }
  }
}

void NativeBackend::FillOutputs(std::span<const StepItem> items, ConstMatrix hidden) {
  int64_t n_shared = 0;
  int64_t n_sharing = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].want_hidden != WantRows::kNone) {
      FinalNorm(*compute_, model_->config().decoder, model_->decoder(), Wanted(items[i].want_hidden, runs_[i], hidden),
                items[i].hidden);
    }
    n_shared += SharedRows(items[i]);
    n_sharing += SharedRows(items[i]) > 0 ? 1 : 0;
  }
  const bool share = n_sharing > 1;
  if (share) FillSharedLogits(items, n_shared, hidden);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].want_logits == WantRows::kNone || (share && SharedRows(items[i]) > 0)) continue;
    FillLogits(items[i], runs_[i], hidden);
  }
}

Status NativeBackend::Step(std::span<StepItem> items) {
  if (items.empty()) return {};
  MINICPM_TRY(Plan(items));
  if (recurrent() && CrossesRestorePoint()) return StepByParts(items);
  RunPlanned(items);
  return {};
}

void NativeBackend::RunPlanned(std::span<const StepItem> items) {
  compute_->arena().Reset();
  const int64_t n_rows = runs_.back().row + runs_.back().n;
  Matrix hidden = compute_->arena().NewMatrix(n_rows, model_->config().decoder.n_embed);
  FillHidden(items, hidden);
  RunDecoderLayers(*compute_, model_->config().decoder, model_->decoder(), pool_, runs_, hidden);
  FillOutputs(items, hidden);
  for (const DecoderRun& run : runs_) pool_.Advance(run.seq, run.n);
}

// Whether a sequence passes a position where a restore point must be taken, instead of ending at or before it.
bool NativeBackend::CrossesRestorePoint() const {
  return std::any_of(runs_.begin(), runs_.end(), [this](const DecoderRun& run) {
    return run.first_position + run.n - pool_.length(run.seq) > pool_.PositionsToSnapshot(run.seq);
  });
}

// The items one after the other, cut at restore points. Rows are independent of the cut, so no bit changes.
Status NativeBackend::StepByParts(std::span<const StepItem> items) {
  const auto rows_of = [](WantRows want, Matrix m, int64_t at, int64_t n) {
    return want == WantRows::kAll ? m.Rows(at, n) : m;
  };
  for (const StepItem& item : items) {
    for (int64_t at = 0; at < item.n();) {
      const int64_t n = std::min(item.n() - at, pool_.PositionsToSnapshot(item.seq));
      StepItem part = item;
      if (item.token_ids.empty()) {
        part.embeddings = item.embeddings.Rows(at, n);
      } else {
        part.token_ids = item.token_ids.subspan(static_cast<size_t>(at), static_cast<size_t>(n));
      }
      const bool last = at + n == item.n();
      if (!last && item.want_logits == WantRows::kLast) part.want_logits = WantRows::kNone;
      if (!last && item.want_hidden == WantRows::kLast) part.want_hidden = WantRows::kNone;
      part.logits = rows_of(part.want_logits, item.logits, at, n);
      part.hidden = rows_of(part.want_hidden, item.hidden, at, n);
      MINICPM_TRY(Plan({&part, 1}));  // cannot fail: all of it was planned before
      RunPlanned({&part, 1});
      at += n;
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> NewNativeBackend(std::shared_ptr<const NativeModel> model,
                                                  const NativeBackendOptions& options) {
  if (options.kv_dtype != DType::kF16 && options.kv_dtype != DType::kF32 && options.kv_dtype != DType::kI8) {
    return Fail(ErrorCode::kInvalidArgument, "the native engine keeps keys and values as f32, f16 or int8");
  }
  const SequenceLayout layout = DecoderSequenceLayout(model->config().decoder, options.kv_dtype);
  const int64_t tokens = std::max<int64_t>(options.kv_tokens, 1);
  const uint64_t bytes = static_cast<uint64_t>((tokens + kKvBlockTokens - 1) / kKvBlockTokens) * layout.block_bytes() +
                         layout.recurrent_bytes(tokens);
  const uint64_t available = AvailableMemoryBytes();
  if (available != 0 && bytes > available) {
    return Fail(ErrorCode::kResourceExhausted, "a context of " + std::to_string(tokens) + " positions needs " +
                                                   std::to_string(bytes >> 20) + " MB for keys and values, " +
                                                   std::to_string(available >> 20) + " MB are available");
  }
  ComputeOptions compute_options;
  compute_options.n_threads = options.n_threads;
  compute_options.pin = options.pin;
  compute_options.isa = options.isa;
  MINICPM_ASSIGN(std::unique_ptr<Compute> compute, Compute::Create(compute_options));
  return std::make_unique<NativeBackend>(std::move(model), std::move(compute), options.kv_dtype, tokens);
}

}  // namespace minicpm
