// Implementation of cli_test_process.h.
#include "cli_test_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "engine/engine.h"
#include "tests/support/expand_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> fds{};
    MINICPM_CHECK(pipe2(fds.data(), O_CLOEXEC) == 0);
    read_end = fds[0];
    write_end = fds[1];
  }
  int read_end;
  int write_end;
};

void Close(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// The program, or an emulator and the program in a cross build.
std::vector<std::string> ProgramWords() {
  std::vector<std::string> words;
  std::istringstream emulator(MINICPM_EMULATOR);
  for (std::string word; std::getline(emulator, word, '|');) words.push_back(word);
  words.emplace_back(MINICPM_PROGRAM);
  return words;
}

pid_t Spawn(const std::vector<std::string>& arguments, const posix_spawn_file_actions_t& actions, bool new_session) {
  std::vector<std::string> words = ProgramWords();
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = {"PATH=/usr/bin:/bin", "TERM=xterm", "LC_ALL=C.UTF-8", "HOME=/nowhere"};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = getenv(name)) variables.push_back(std::string(name) + "=" + value);
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGDEF | (new_session ? POSIX_SPAWN_SETSID : 0)));
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0].c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  EXPECT_EQ(error, 0) << "cannot start " << MINICPM_PROGRAM << ": " << std::strerror(error);
  return error == 0 ? pid : -1;
}

// Appends what can be read now; closes at the end. On a terminal whose other side is gone, read fails: also the end.
void Drain(int& fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t n = read(fd, buffer.data(), buffer.size());
  if (n > 0) {
    text.append(buffer.data(), static_cast<size_t>(n));
  } else if (n == 0 || errno != EINTR) {
    Close(fd);
  }
}

}  // namespace

bool Child::HasTerminals() {
  int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  const bool works = terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0;
  Close(terminal);
  return works;
}

Child::Child(const std::vector<std::string>& arguments, Io io) {
  signal(SIGPIPE, SIG_IGN);  // writing to a child that has left is no reason to die
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (io == Io::kTerminal) {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    MINICPM_CHECK(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    posix_spawn_file_actions_addopen(&actions, 0, ptsname(terminal), O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    pid_ = Spawn(arguments, actions, true);
    out_ = terminal;
    in_ = fcntl(terminal, F_DUPFD_CLOEXEC, 0);
  } else {
    Pipe in, out, err;
    posix_spawn_file_actions_adddup2(&actions, in.read_end, 0);
    if (io == Io::kFullDisk) {
      posix_spawn_file_actions_addopen(&actions, 1, "/dev/full", O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, out.write_end, 1);
    }
    posix_spawn_file_actions_adddup2(&actions, err.write_end, 2);
    pid_ = Spawn(arguments, actions, false);
    Close(in.read_end);
    Close(out.write_end);
    Close(err.write_end);
    in_ = in.write_end;
    out_ = out.read_end;
    err_ = err.read_end;
  }
  posix_spawn_file_actions_destroy(&actions);
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Close(in_);
  Close(out_);
  Close(err_);
}

void Child::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(in_, text.data(), text.size());
    if (n <= 0) return;  // the child has left; the test will see its exit code
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void Child::CloseInput() { Close(in_); }

void Child::GiveUp(const std::string& what) {
  const auto end_of = [](const std::string& text) {
    return text.substr(text.size() - std::min<size_t>(text.size(), 1000));
  };
  ADD_FAILURE() << what << "\nend of stdout: " << end_of(outcome_.out) << "\nend of stderr: " << end_of(outcome_.err);
  if (pid_ > 0) kill(pid_, SIGKILL);
}

bool Child::ReadSome() {
  if (out_ < 0 && err_ < 0) return false;
  std::array<pollfd, 2> fds = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (poll(fds.data(), fds.size(), kPatienceSeconds * 1000) <= 0) {
    GiveUp("the program said nothing for " + std::to_string(kPatienceSeconds) + " s");
    return false;
  }
  if (fds[0].revents != 0) Drain(out_, outcome_.out);
  if (fds[1].revents != 0) Drain(err_, outcome_.err);
  return true;
}

bool Child::WaitFor(std::string_view text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
  size_t searched = found_;  // no match begins before here
  while (true) {
    const size_t at = outcome_.out.find(text, searched);
    if (at != std::string::npos) {
      found_ = at + text.size();
      return true;
    }
    if (outcome_.out.size() > text.size()) searched = std::max(searched, outcome_.out.size() - text.size());
    if (std::chrono::steady_clock::now() > end || !ReadSome()) {
      GiveUp("the program did not say \"" + std::string(text) + "\"");
      return false;
    }
  }
}

void Child::Signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

Outcome Child::Finish() {
  // A program that talks for ever is as wrong as a silent one.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
  while (ReadSome()) {
    if (std::chrono::steady_clock::now() > end) {
      GiveUp("the program does not end");
      break;
    }
  }
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, 0) == pid_) {
    outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_ = -1;
  return outcome_;
}

Outcome Minicpm(const std::vector<std::string>& arguments, std::string_view input) {
  Child child(arguments);
  child.Write(input);
  child.CloseInput();
  return child.Finish();
}

std::string TinyModel(const std::string& family) { return std::string(MINICPM_SOURCE_DIR) + "/models/tiny/" + family; }

void MakeEndlessModel(const std::string& from_folder, const std::string& to_folder) {
  std::filesystem::create_directories(to_folder);
  const Status copied = test::ExpandCheckpoint(from_folder, to_folder, DType::kF32);
  ASSERT_TRUE(copied.has_value()) << copied.error().message;
  std::vector<int32_t> stops;
  int64_t n_rows = 0;
  {
    const auto engine = Engine::Open(to_folder, {});
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    n_rows = (*engine)->tokenizer().vocab_size();
    for (int32_t id = 0; id < n_rows; ++id) {
      if ((*engine)->IsStop(id)) stops.push_back(id);
    }
  }
  // A row of zeros in the head gives the logit 0, which is never the largest of hundreds of random ones.
  const std::string path = to_folder + "/model.safetensors";
  std::string bytes = test::ReadFileBytes(path);
  uint64_t n_header = 0;
  std::memcpy(&n_header, bytes.data(), sizeof n_header);
  const auto header = nlohmann::json::parse(bytes.substr(8, n_header));
  const auto& head = header.at("llm.lm_head.weight");
  const auto row_bytes = head.at("shape").at(1).get<size_t>() * sizeof(float);
  const size_t data = 8 + n_header + head.at("data_offsets").at(0).get<size_t>();
  for (const int32_t id : stops) std::memset(bytes.data() + data + static_cast<size_t>(id) * row_bytes, 0, row_bytes);
  FILE* file = fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  fclose(file);
}

}  // namespace minicpm::cli
