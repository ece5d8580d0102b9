// A growing answer, taken apart into reasoning and text while it comes, and shown together with the progress of the
// work before it. Not for deciding what is reasoning: text/chat_template.h does that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "console.h"
#include "engine/session.h"

namespace minicpm::cli {

// Cuts a stream the way SplitReasoning cuts the whole: all reasoning pieces together are its reasoning, all text pieces
// together its text. What may still turn out to be part of a tag, or white space that is dropped at an end, waits.
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(bool starts_inside_think) : inside_(starts_inside_think) {}
  struct Pieces {
    std::string reasoning;
    std::string text;
  };
  Pieces Push(std::string_view chunk);
  // The rest, when the generation is over.
  Pieces Finish();

 private:
  Pieces Advance(const SplitAnswer& now);

  const bool inside_;
  std::string all_;
  SplitAnswer shown_;
};

// Prints answer and progress of one Generate call. Threads: the one that calls Generate.
class AnswerPrinter : public GenerationListener {
 public:
  struct Options {
    bool print_answer = true;  // false: progress only (--json)
    bool print_reasoning = false;
  };
  // Lifetime: console and prompt outlive this.
  AnswerPrinter(Console& console, const Prompt& prompt, const Options& options);

  void OnViewEncoded(const ViewProgress& progress) override;
  void OnSoundEncoded(double done_s, double total_s) override;
  void OnPrefill(int64_t done, int64_t total) override;
  void OnText(std::string_view text) override;
  // Prints what was held back and ends the line.
  void Finish();

 private:
  void Print(const ReasoningSplitter::Pieces& pieces);

  Console& console_;
  const Prompt& prompt_;
  const Options options_;
  ReasoningSplitter splitter_;
  int64_t n_silent_ = 0;  // characters of reasoning that were not shown
};

// "42 tokens in 8.1 s (5.2/s)" and the like, for a terminal after an answer.
std::string SummaryLine(const GenerationResult& result);

}  // namespace minicpm::cli
