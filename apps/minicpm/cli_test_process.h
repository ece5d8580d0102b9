// Runs the built program the way a user or a script does: with pipes or on a terminal of its own, with signals. For
// tests of this folder only.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace minicpm::cli {

struct Outcome {
  int exit_code = -1;  // 128 + N when signal N ended it
  std::string out;
  std::string err;  // empty on a terminal: there both go to `out`
};

// A running `minicpm`. Never waits for ever: after kPatienceSeconds without the expected event the child is killed and
// the test fails.
class Child {
 public:
  static constexpr int kPatienceSeconds = 300;

  enum class Io {
    kPipes,
    kTerminal,
    kFullDisk,  // stdout goes to a device that is always full
  };
  // Whether kTerminal works here: a container without devpts has no pseudo terminals.
  static bool HasTerminals();
  // Requires: HasTerminals() for kTerminal.
  explicit Child(const std::vector<std::string>& arguments, Io io = Io::kPipes);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void Write(std::string_view text);
  void CloseInput();
  // Reads until stdout (or the terminal) holds `text` after what earlier calls have found.
  bool WaitFor(std::string_view text);
  void Signal(int number);
  // Waits for the end.
  Outcome Finish();

 private:
  bool ReadSome();  // false at the end of both streams
  void GiveUp(const std::string& what);

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  size_t found_ = 0;
  Outcome outcome_;
};

// Start, write all of `input`, wait.
Outcome Minicpm(const std::vector<std::string>& arguments, std::string_view input = "");

// Folder of a bundled model.
std::string TinyModel(const std::string& family);
// A copy of a bundled model that never generates a stop token when it is greedy.
void MakeEndlessModel(const std::string& from_folder, const std::string& to_folder);

}  // namespace minicpm::cli
