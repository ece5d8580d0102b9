// Implementation of answer_stream.h.
#include "answer_stream.h"

#include <algorithm>
#include <cstdio>

namespace minicpm::cli {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kSpaces = " \t\r\n";

// Length of the longest end of `text` that is a proper beginning of `tag`.
size_t TagTail(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

// What has been shown stays shown: the rest of `now` after it, or nothing when it does not go on from there.
std::string Rest(const std::string& now, const std::string& shown) {
  return now.starts_with(shown) ? now.substr(shown.size()) : "";
}

// `text` without the white space at its end, which SplitReasoning may still drop.
std::string TrimEnd(const std::string& text) { return text.substr(0, text.find_last_not_of(kSpaces) + 1); }

int64_t CountCharacters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string Format(const char* format, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

ReasoningSplitter::Pieces ReasoningSplitter::Advance(const SplitAnswer& now) {
  Pieces pieces{Rest(now.reasoning, shown_.reasoning), Rest(now.text, shown_.text)};
  shown_.reasoning += pieces.reasoning;
  shown_.text += pieces.text;
  return pieces;
}

ReasoningSplitter::Pieces ReasoningSplitter::Push(std::string_view chunk) {
  all_ += chunk;
  const size_t held = std::max(TagTail(all_, kOpen), TagTail(all_, kClose));
  SplitAnswer now = SplitReasoning(std::string_view(all_).substr(0, all_.size() - held), inside_);
  now.reasoning = TrimEnd(now.reasoning);
  now.text = TrimEnd(now.text);
  return Advance(now);
}

ReasoningSplitter::Pieces ReasoningSplitter::Finish() { return Advance(SplitReasoning(all_, inside_)); }

AnswerPrinter::AnswerPrinter(Console& console, const Prompt& prompt, const Options& options)
    : console_(console), prompt_(prompt), options_(options), splitter_(prompt.starts_inside_think) {}

void AnswerPrinter::OnViewEncoded(const ViewProgress& p) {
  if (!console_.shows_progress()) return;
  const PromptMedia& medium = prompt_.media[p.media];
  if (medium.kind == MediaKind::kFrames) {
    // Hundreds of frames are one line that changes.
    console_.Transient(Format("video: view %lld/%lld encoded in %.0f ms", static_cast<long long>(p.done),
                              static_cast<long long>(p.total), p.ms));
    return;
  }
  console_.Progress(Format("image %zu/%zu: view %d/%d encoded in %.0f ms", p.media + 1, prompt_.media.size(),
                           p.view + 1, medium.plan.n_views(), p.ms));
}

void AnswerPrinter::OnSoundEncoded(double done_s, double total_s) {
  console_.Transient(Format("sound: %.0f of %.0f s encoded", done_s, total_s));
}

void AnswerPrinter::OnPrefill(int64_t done, int64_t total) {
  console_.Transient(
      Format("reading the prompt: %lld of %lld tokens", static_cast<long long>(done), static_cast<long long>(total)));
}

void AnswerPrinter::OnText(std::string_view text) { Print(splitter_.Push(text)); }

void AnswerPrinter::Print(const ReasoningSplitter::Pieces& pieces) {
  if (!pieces.reasoning.empty()) {
    if (options_.print_reasoning) {
      console_.Reasoning(pieces.reasoning);
    } else {
      n_silent_ += CountCharacters(pieces.reasoning);
      console_.Transient(Format("thinking: %lld characters", static_cast<long long>(n_silent_)));
    }
  }
  if (options_.print_answer) console_.Answer(pieces.text);
}

void AnswerPrinter::Finish() {
  Print(splitter_.Finish());
  console_.EndReasoning();
  console_.EndAnswer();
  console_.Transient("");
}

std::string SummaryLine(const GenerationResult& result) {
  std::string line;
  if (result.image_encode_ms > 0 && result.n_image_views > 0) {
    line += Format("pictures %.1f s, ", result.image_encode_ms / 1000);
  }
  if (result.audio_encode_ms > 0) line += Format("sound %.1f s, ", result.audio_encode_ms / 1000);
  const auto n = static_cast<long long>(result.token_ids.size());
  line += Format("prompt %.1f s, %lld tokens in %.1f s", result.prefill_ms / 1000, n, result.decode_ms / 1000);
  if (n > 1 && result.decode_ms > 0) {
    line += Format(" (%.1f/s)", 1000.0 * static_cast<double>(n - 1) / result.decode_ms);
  }
  return line;
}

}  // namespace minicpm::cli
