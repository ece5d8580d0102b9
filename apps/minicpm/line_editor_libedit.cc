// NewTerminalEditor with libedit. Everything is drawn on stderr, so that stdout holds answers only.
#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "interrupt.h"
#include "line_editor.h"

namespace minicpm::cli {
namespace {

constexpr int kRecalledLines = 1000;

// One character from the terminal; 1, or 0 at the end, or -1 to give up the line. libedit's own reader would go on
// waiting after Ctrl-C.
int ReadCharacter(EditLine* /*editor*/, wchar_t* out) {
  std::string bytes;
  while (true) {
    if (Interrupted()) return -1;
    char byte = 0;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return static_cast<int>(n);
    bytes += byte;
    if (IncompleteUtf8Tail(bytes) == bytes.size()) continue;
    *out = static_cast<wchar_t>(DecodeUtf8(bytes, 0).code_point);
    return 1;
  }
}

char* Prompt(EditLine* editor) {
  void* text = nullptr;
  el_get(editor, EL_CLIENTDATA, &text);
  return static_cast<char*>(text);
}

class TerminalEditor : public LineEditor {
 public:
  explicit TerminalEditor(std::string history_file) : history_file_(std::move(history_file)) {
    // libedit turns characters into bytes by the locale; ours are UTF-8.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    history_ = history_init();
    history(history_, &event_, H_SETSIZE, kRecalledLines);
    history(history_, &event_, H_SETUNIQUE, 1);
    if (!history_file_.empty()) history(history_, &event_, H_LOAD, history_file_.c_str());
    editor_ = el_init("minicpm", stdin, stderr, stderr);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_PROMPT, &Prompt);
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_GETCFN, &ReadCharacter);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~TerminalEditor() override {
    if (!history_file_.empty()) history(history_, &event_, H_SAVE, history_file_.c_str());
    el_end(editor_);
    history_end(history_);
  }

  ReadOutcome Read(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    el_set(editor_, EL_CLIENTDATA, prompt_.data());
    int n = 0;
    const char* text = el_gets(editor_, &n);
    if (text == nullptr || n <= 0) {
      std::fputc('\n', stderr);
      if (AskedToLeave()) return ReadOutcome::kEnd;
      return Interrupted() ? ReadOutcome::kInterrupted : ReadOutcome::kEnd;
    }
    line.assign(text, static_cast<size_t>(n));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(' ') != std::string::npos) history(history_, &event_, H_ENTER, line.c_str());
    return ReadOutcome::kLine;
  }

 private:
  const std::string history_file_;
  std::string prompt_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  HistEvent event_{};
};

}  // namespace

std::unique_ptr<LineEditor> NewTerminalEditor(const std::string& history_file) {
  return std::make_unique<TerminalEditor>(history_file);
}

}  // namespace minicpm::cli
