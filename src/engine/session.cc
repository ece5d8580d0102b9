// Implementation of session.h: compare with what is held, encode, feed, generate.
#include "engine/session.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/check.h"
#include "engine/media_encoder.h"
#include "engine/prompt_lookup.h"
#include "engine/stop_text.h"
#include "models/blocks/model_config.h"
#include "os/clock.h"
#include "text/tokenizer.h"

namespace minicpm {
namespace {

bool Cancelled(const std::atomic<bool>* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Damaged weights show here first, and sampling needs an order among the logits.
bool AllNumbers(std::span<const float> logits) {
  bool all = true;
  for (const float x : logits) all &= x == x;
  return all;
}

// Bytes that the generated text may take before its string has to grow: generous for byte-level tokens.
constexpr int64_t kReserveBytesPerToken = 16;

// Guessed tokens of one generation: asks PromptLookup, knows the limits, remembers what was fed.
class Drafts {
 public:
  // Requires: caps allow it, or mode is kOff. At most `capacity` tokens will be told.
  Drafts(Lookup mode, int most, int64_t capacity) : mode_(mode), most_(most) {
    if (mode != Lookup::kOff) lookup_.emplace(capacity);
  }
  void Tell(std::span<const int32_t> ids) {
    if (lookup_.has_value()) lookup_->Append(ids);
  }
  void BeginAnswer() {
    if (lookup_.has_value()) lookup_->BeginAnswer();
  }
  // A new draft of at most `room` tokens, for the place after everything told.
  std::span<const int32_t> Next(int64_t room, const StepCosts& costs) {
    next_ = n_ = 0;
    if (!lookup_.has_value() || room < 1) return {};
    const std::span<int32_t> out(ids_.data(), static_cast<size_t>(std::min<int64_t>(room, most_)));
    n_ = mode_ == Lookup::kOn ? lookup_->Guess(out) : lookup_->GuessWorthwhile(out, costs);
    return {ids_.data(), static_cast<size_t>(n_)};
  }
  // Whether the next token of the draft is `id`; then the draft goes on behind it.
  bool Accept(int32_t id) {
    if (next_ == n_ || ids_[static_cast<size_t>(next_)] != id) return false;
    ++next_;
    return true;
  }
  // Row of the last step that tells what follows the accepted tokens.
  int64_t row() const { return next_; }

 private:
  Lookup mode_;
  int most_;
  std::optional<PromptLookup> lookup_;
  std::array<int32_t, PromptLookup::kMostTokens> ids_{};
  int n_ = 0;
  int next_ = 0;
};

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

struct Session::Impl {
  Impl(std::shared_ptr<const Engine> e, Backend& b, const SessionOptions& o)
      : engine(std::move(e)), backend(b), options(o), media(engine->config(), b, o), n_vocab(b.shape().n_vocab) {
    logits.resize(static_cast<size_t>(n_vocab));
  }
  ~Impl() {
    if (seq >= 0) backend.Drop(seq);
  }

  int64_t CommonPrefix(const Prompt& prompt) const;
  Status Forget(int64_t n);
  Result<bool> Prefill(const Prompt& prompt, const std::atomic<bool>* cancel, GenerationListener* listener);
  int64_t RestorePoint(const Prompt& prompt, int64_t at) const;
  Status FeedChunk(const Prompt& prompt, int64_t begin, int64_t end);
  Status FeedToken(int32_t id, std::span<const int32_t> draft);
  Status Settle();
  std::span<float> LogitsRow(int64_t row);
  Result<FinishReason> Decode(const GenerationOptions& o, GenerationListener* listener, double start_ms,
                              GenerationResult& result);

  std::shared_ptr<const Engine> engine;
  Backend& backend;
  SessionOptions options;
  MediaEncoder media;
  SeqId seq = -1;
  int64_t context = 0;
  Prompt held;  // what the sequence holds: ids of all positions, and the media among them
  int64_t n_vocab;
  std::vector<float> logits;  // [rows, N]: one, or as many as a step with guessed tokens asks for
  std::vector<StepItem> items;
  StepCosts costs;
  int64_t n_cached = 0;
};

// How many leading positions of `prompt` are held already: equal ids, and equal media where the ids are placeholders.
int64_t Session::Impl::CommonPrefix(const Prompt& prompt) const {
  const auto limit = static_cast<int64_t>(std::min(held.ids.size(), prompt.ids.size()));
  int64_t n = 0;
  while (n < limit && held.ids[static_cast<size_t>(n)] == prompt.ids[static_cast<size_t>(n)]) ++n;
  const size_t spans = std::min(held.spans.size(), prompt.spans.size());
  for (size_t i = 0; i < spans; ++i) {
    const MediaSpan& a = held.spans[i];
    const MediaSpan& b = prompt.spans[i];
    if (std::min(a.begin, b.begin) >= n) return n;
    if (a.begin != b.begin || a.n != b.n || a.row != b.row || !SameMedia(held.media[a.media], prompt.media[b.media])) {
      return std::min(a.begin, b.begin);
    }
  }
  // A placeholder beyond the shorter list belongs to text on the other side.
  if (spans < held.spans.size()) n = std::min(n, held.spans[spans].begin);
  if (spans < prompt.spans.size()) n = std::min(n, prompt.spans[spans].begin);
  return n;
}

Status Session::Impl::Forget(int64_t n) {
  MINICPM_ASSIGN(const int64_t reached, backend.Rewind(seq, n));
  held.ids.resize(static_cast<size_t>(reached));
  while (!held.spans.empty() && held.spans.back().begin >= reached) held.spans.pop_back();
  return {};
}

// Rows [begin, end) as one Step: runs of text by id, runs of pictures by embedding. Logits for the prompt's last row.
Status Session::Impl::FeedChunk(const Prompt& prompt, int64_t begin, int64_t end) {
  items.clear();
  auto span = std::find_if(prompt.spans.begin(), prompt.spans.end(),
                           [begin](const MediaSpan& s) { return s.begin + s.n > begin; });
  for (int64_t at = begin; at < end;) {
    StepItem item;
    item.seq = seq;
    if (span != prompt.spans.end() && span->begin <= at) {
      const int64_t n = std::min(span->begin + span->n, end) - at;
      item.embeddings = media.Rows(prompt, *span).Rows(at - span->begin, n);
      at += n;
      if (at == span->begin + span->n) ++span;
    } else {
      const int64_t stop = span != prompt.spans.end() ? std::min(span->begin, end) : end;
      item.token_ids = {prompt.ids.data() + at, static_cast<size_t>(stop - at)};
      at = stop;
    }
    items.push_back(item);
  }
  if (end == static_cast<int64_t>(prompt.ids.size())) {
    items.back().want_logits = WantRows::kLast;
    items.back().logits = Matrix(logits.data(), 1, n_vocab);
  }
  return backend.Step(items);
}

// Where rewinding needs points to return to: the next end of a run of media behind position `at`, if it does.
int64_t Session::Impl::RestorePoint(const Prompt& prompt, int64_t at) const {
  if (backend.caps().rewind) return INT64_MAX;
  for (size_t i = 0; i < prompt.spans.size(); ++i) {
    const bool last_view = i + 1 == prompt.spans.size() || prompt.spans[i + 1].media != prompt.spans[i].media;
    const int64_t end = prompt.spans[i].begin + prompt.spans[i].n;
    if (last_view && end > at) return end;
  }
  return INT64_MAX;
}

Result<bool> Session::Impl::Prefill(const Prompt& prompt, const std::atomic<bool>* cancel,
                                    GenerationListener* listener) {
  const auto total = static_cast<int64_t>(prompt.ids.size());
  if (total == 0) return Fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (total > context) {
    return Fail(ErrorCode::kResourceExhausted, "the prompt has " + std::to_string(total) +
                                                   " tokens, but the context holds " + std::to_string(context));
  }
  // The last position is always fed again: its logits are wanted.
  MINICPM_TRY(Forget(std::min(CommonPrefix(prompt), total - 1)));
  const auto first = static_cast<int64_t>(held.ids.size());
  n_cached = first;
  media.Begin(prompt, first, cancel, listener);
  held.media = prompt.media;
  const int64_t chunk = options.prefill_chunk > 0 ? options.prefill_chunk : total;
  for (int64_t at = first; at < total;) {
    if (Cancelled(cancel)) return false;
    const int64_t end = std::min({at + chunk, total, RestorePoint(prompt, at)});
    // Media are encoded when their chunk comes, and frames dropped behind it: a long video takes no more memory.
    MINICPM_ASSIGN(const bool encoded, media.Encode(prompt, at, end));
    if (!encoded) return false;
    MINICPM_TRY(FeedChunk(prompt, at, end));
    media.Release(prompt, end);
    if (end == RestorePoint(prompt, end - 1)) backend.Mark(seq);
    held.ids.assign(prompt.ids.begin(), prompt.ids.begin() + end);
    held.spans.clear();
    std::copy_if(prompt.spans.begin(), prompt.spans.end(), std::back_inserter(held.spans),
                 [end](const MediaSpan& s) { return s.begin < end; });
    at = end;
    if (listener != nullptr) listener->OnPrefill(at - first, total - first);
  }
  backend.Mark(seq);
  return true;
}

std::span<float> Session::Impl::LogitsRow(int64_t row) {
  return std::span<float>(logits).subspan(static_cast<size_t>(row * n_vocab), static_cast<size_t>(n_vocab));
}

// Feeds a token and guesses of what follows, and asks for the logits after each. `held` gets the token only: the
// guesses are held by the backend until Decode accepts them or Settle takes them back.
Status Session::Impl::FeedToken(int32_t id, std::span<const int32_t> draft) {
  std::array<int32_t, StepCosts::kMostRows> ids;
  ids[0] = id;
  std::copy(draft.begin(), draft.end(), ids.begin() + 1);
  const size_t n = draft.size() + 1;
  StepItem item;
  item.seq = seq;
  item.token_ids = {ids.data(), n};
  item.want_logits = WantRows::kAll;
  item.logits = Matrix(logits.data(), static_cast<int64_t>(n), n_vocab);
  const double start_ms = NowMs();
  MINICPM_TRY(backend.Step({&item, 1}));
  costs.Observe(static_cast<int>(n), NowMs() - start_ms);
  held.ids.push_back(id);
  return {};
}

// Takes guesses back that were fed but not accepted.
Status Session::Impl::Settle() {
  const auto n = static_cast<int64_t>(held.ids.size());
  if (backend.Position(seq) == n) return {};
  MINICPM_ASSIGN(const int64_t reached, backend.Rewind(seq, n));
  MINICPM_CHECK(reached == n);  // Caps::rewind
  return {};
}

// Allocates up front what it needs; nothing per token (StepItem lives on the stack, strings and vectors are reserved).
Result<FinishReason> Session::Impl::Decode(const GenerationOptions& o, GenerationListener* listener, double start_ms,
                                           GenerationResult& result) {
  Sampler sampler(o.sampling, n_vocab);
  StreamDecoder decoder(engine->tokenizer());
  const int64_t room = context - static_cast<int64_t>(held.ids.size());
  const int64_t limit = std::min(o.max_new_tokens, room + 1);
  StopText text(o.stop, static_cast<size_t>(limit * kReserveBytesPerToken));
  result.token_ids.reserve(static_cast<size_t>(limit));
  held.ids.reserve(held.ids.size() + static_cast<size_t>(limit));
  const Caps caps = backend.caps();
  const int most = std::clamp(o.lookup_tokens, 1, PromptLookup::kMostTokens);
  Drafts drafts(caps.rewind && caps.batch_exact ? o.lookup : Lookup::kOff, most,
                static_cast<int64_t>(held.ids.size()) + limit);
  drafts.Tell(held.ids);
  drafts.BeginAnswer();
  if (o.lookup != Lookup::kOff) logits.resize(static_cast<size_t>((most + 1) * n_vocab));
  const auto show = [listener](std::string_view s) {
    if (listener != nullptr && !s.empty()) listener->OnText(s);
  };
  FinishReason reason = FinishReason::kLength;
  double first_ms = NowMs();
  while (static_cast<int64_t>(result.token_ids.size()) < o.max_new_tokens) {
    if (Cancelled(o.cancel)) {
      reason = FinishReason::kCancelled;
      break;
    }
    const std::span<float> row = LogitsRow(drafts.row());
    if (!AllNumbers(row)) {
      MINICPM_TRY(Settle());
      return Fail(ErrorCode::kCorrupt, "the model computed values that are not numbers; its weights may be damaged");
    }
    const int32_t id = sampler.Sample(row);
    if (result.token_ids.empty()) {
      first_ms = NowMs();
      result.first_token_ms = first_ms - start_ms;
    }
    if (engine->IsStop(id) && !o.ignore_stop_tokens) {
      reason = FinishReason::kStop;
      break;
    }
    sampler.Observe(id);
    result.token_ids.push_back(id);
    show(text.Push(decoder.Push(id)));
    if (text.stopped()) {
      reason = FinishReason::kStop;
      break;
    }
    const int64_t left = o.max_new_tokens - static_cast<int64_t>(result.token_ids.size());
    if (left == 0) break;
    const int64_t free = context - static_cast<int64_t>(held.ids.size());
    if (free == 0) {
      reason = FinishReason::kContext;
      break;
    }
    drafts.Tell({&id, 1});
    if (drafts.Accept(id)) {  // fed already, and what follows it is known
      held.ids.push_back(id);
      ++result.n_accepted_tokens;
      continue;
    }
    MINICPM_TRY(Settle());
    const std::span<const int32_t> draft = drafts.Next(std::min(left, free) - 1, costs);
    result.n_drafted_tokens += static_cast<int64_t>(draft.size());
    MINICPM_TRY(FeedToken(id, draft));
  }
  MINICPM_TRY(Settle());
  if (!text.stopped()) {
    show(text.Push(decoder.Finish()));
    if (!text.stopped()) show(text.Finish());
  }
  result.text = text.text();
  result.decode_ms = NowMs() - first_ms;
  return reason;
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Create(std::shared_ptr<const Engine> engine, Backend& backend,
                                                 const SessionOptions& options) {
  auto impl = std::make_unique<Impl>(std::move(engine), backend, options);
  impl->context = options.context > 0 ? options.context : impl->engine->default_context();
  MINICPM_ASSIGN(impl->seq, backend.NewSeq(impl->context));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Result<bool> Session::Feed(const Prompt& prompt, const std::atomic<bool>* cancel, GenerationListener* listener) {
  return impl_->Prefill(prompt, cancel, listener);
}

Result<GenerationResult> Session::Generate(const Prompt& prompt, const GenerationOptions& options,
                                           GenerationListener* listener) {
  const double start_ms = NowMs();
  GenerationResult result;
  result.n_prompt_tokens = static_cast<int64_t>(prompt.ids.size());
  result.n_image_tokens = prompt.n_tokens(MediaKind::kPicture);
  result.n_audio_tokens = prompt.n_tokens(MediaKind::kSound);
  result.n_video_tokens = prompt.n_tokens(MediaKind::kFrames);
  result.n_image_views = prompt.n_views();
  MINICPM_ASSIGN(const bool fed, impl_->Prefill(prompt, options.cancel, listener));
  result.n_cached_tokens = impl_->n_cached;
  const MediaEncoder::Work& work = impl_->media.work();
  result.n_encoded_views = work.n_encoded_views;
  result.n_reused_views = work.n_reused_views;
  result.frame_decode_ms = work.frame_decode_ms;
  result.image_encode_ms = work.vision_ms;
  result.audio_encode_ms = work.sound_ms;
  result.prefill_ms = NowMs() - start_ms - work.frame_decode_ms - work.vision_ms - work.sound_ms;
  if (!fed) {
    result.finish_reason = FinishReason::kCancelled;
  } else {
    MINICPM_ASSIGN(result.finish_reason, impl_->Decode(options, listener, start_ms, result));
  }
  result.total_ms = NowMs() - start_ms;
  return result;
}

std::span<float> Session::last_logits() { return impl_->LogitsRow(0); }
int64_t Session::length() const { return static_cast<int64_t>(impl_->held.ids.size()); }
Status Session::Rewind(int64_t n) { return impl_->Forget(std::max<int64_t>(n, 0)); }

}  // namespace minicpm
