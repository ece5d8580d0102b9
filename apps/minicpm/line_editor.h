// Lines from the user: with editing and recall on a terminal, plainly from a pipe. Not for what the lines mean.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace minicpm::cli {

enum class ReadOutcome {
  kLine,
  kInterrupted,  // InterruptFlag() was raised while waiting; what had been typed is dropped
  kEnd,          // end of input, or AskedToLeave()
};

class LineEditor {
 public:
  virtual ~LineEditor() = default;
  // The next line without its newline. `prompt` is shown on a terminal only.
  virtual ReadOutcome Read(const std::string& prompt, std::string& line) = 0;
};

// Reads file descriptor 0 byte for byte as a pipe gives it. show_prompt: prompts go to stderr. A line that is longer
// than kMaxLineBytes comes in pieces.
constexpr size_t kMaxLineBytes = size_t{16} << 20;
std::unique_ptr<LineEditor> NewPlainEditor(bool show_prompt);

// For a terminal on stdin: cursor keys, recall of earlier lines, Ctrl-R. `history_file` keeps the lines across
// programs,
// "" = in memory only. Without an editing library this is NewPlainEditor(true).
std::unique_ptr<LineEditor> NewTerminalEditor(const std::string& history_file);

}  // namespace minicpm::cli
