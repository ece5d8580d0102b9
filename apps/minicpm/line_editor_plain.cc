// The plain half of line_editor.h: lines from a pipe, or from a terminal without an editing library.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "interrupt.h"
#include "line_editor.h"

namespace minicpm::cli {
namespace {

class PlainEditor : public LineEditor {
 public:
  explicit PlainEditor(bool show_prompt) : show_prompt_(show_prompt) {}

  ReadOutcome Read(const std::string& prompt, std::string& line) override {
    if (show_prompt_) {
      std::fputs(prompt.c_str(), stderr);
      std::fflush(stderr);
    }
    line.clear();
    while (true) {
      while (begin_ < end_) {
        const char c = buffer_[begin_++];
        if (c == '\n') return ReadOutcome::kLine;
        line += c;
        if (line.size() == kMaxLineBytes) return ReadOutcome::kLine;
      }
      if (AskedToLeave()) return ReadOutcome::kEnd;
      if (Interrupted()) return ReadOutcome::kInterrupted;
      const ssize_t n = read(STDIN_FILENO, buffer_.data(), buffer_.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return line.empty() ? ReadOutcome::kEnd : ReadOutcome::kLine;
      begin_ = 0;
      end_ = static_cast<size_t>(n);
    }
  }

 private:
  const bool show_prompt_;
  std::array<char, 4096> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

std::unique_ptr<LineEditor> NewPlainEditor(bool show_prompt) { return std::make_unique<PlainEditor>(show_prompt); }

}  // namespace minicpm::cli
