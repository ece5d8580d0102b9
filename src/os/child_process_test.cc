// Other programs run to their end: input, exit codes, time limit, process group, open files.
#include "os/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "os/clock.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

ChildCommand Shell(const std::string& script, std::string input = "") {
  return {.words = {"/bin/sh", "-c", script}, .environment = {"PATH=/usr/bin:/bin"}, .input = std::move(input)};
}

ChildEnd RunToEnd(const ChildCommand& command, const std::atomic<bool>* cancel = nullptr) {
  const auto end = RunChild(command, cancel);
  EXPECT_TRUE(end.has_value()) << end.error().message;
  return end.value_or(ChildEnd{});
}

TEST(ChildProcess, TellsHowTheProgramEnded) {
  EXPECT_EQ(RunToEnd(Shell("exit 0")).number, 0);
  const ChildEnd failed = RunToEnd(Shell("exit 7"));
  EXPECT_EQ(failed.kind, ChildEnd::Kind::kExited);
  EXPECT_EQ(Describe(failed, 30), "exit code 7");
  const ChildEnd killed = RunToEnd(Shell("kill -9 $$"));
  EXPECT_EQ(killed.kind, ChildEnd::Kind::kSignalled);
  EXPECT_EQ(Describe(killed, 30), "signal 9");
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnError) {
  ChildCommand command = Shell("");
  command.words[0] = "/nowhere/program";
  const auto end = RunChild(command);
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(end.error().message, "/nowhere/program: cannot be started: No such file or directory");
  EXPECT_FALSE(RunChild({}).has_value());
}

TEST(ChildProcess, InputOfAnySizeArrivesAndNeedNotBeRead) {
  const test::TempDir dir;
  std::string input(5'000'000, 'x');
  for (size_t i = 0; i < input.size(); i += 100) input[i] = static_cast<char>('a' + i / 100 % 26);
  EXPECT_EQ(RunToEnd(Shell("cat > " + dir.File("copy"), input)).number, 0);
  EXPECT_TRUE(test::ReadFileBytes(dir.File("copy")) == input);
  EXPECT_EQ(RunToEnd(Shell("exit 3", input)).number, 3);
  EXPECT_EQ(
      RunToEnd(Shell("read line; test \"$line\" = hello && test \"$(cat /dev/stdin)\" = 'hello\nyou'", "hello\nyou"))
          .number,
      0)
      << "stdin can be opened again by its name";
}

TEST(ChildProcess, TheEnvironmentIsExactlyWhatWasGiven) {
  ChildCommand command = Shell("test \"$MINICPM_ALERT_TEXT\" = 'a \"b\" $c' && test -z \"$HOME\"");
  command.environment.emplace_back("MINICPM_ALERT_TEXT=a \"b\" $c");
  EXPECT_EQ(RunToEnd(command).number, 0);
}

TEST(ChildProcess, NoOpenFileIsPassedOn) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as libraries do it
  ASSERT_GE(leaked, 3);
  EXPECT_EQ(RunToEnd(Shell("test ! -e /proc/$$/fd/" + std::to_string(leaked) + " && test -e /proc/$$/fd/0")).number, 0);
  close(leaked);
}

TEST(ChildProcess, SignalsAreAsTheyAreByDefault) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  EXPECT_EQ(RunToEnd(Shell("kill -PIPE $$; exit 0")).number, SIGPIPE);
  EXPECT_EQ(RunToEnd(Shell("kill -USR1 $$; exit 0")).number, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

// A pipe with a name that tells what was written and when its last writer is gone. Gives up after a minute.
class WriterWatch {
 public:
  explicit WriterWatch(const test::TempDir& dir) : path_(dir.File("fifo")) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~WriterWatch() { close(fd_); }
  const std::string& path() const { return path_; }
  // The next bytes; "" when no writer is left.
  std::string Read() const {
    char buffer[256];
    pollfd events{fd_, POLLIN, 0};
    if (poll(&events, 1, 60'000) <= 0) return "nothing happened";
    const ssize_t n = read(fd_, buffer, sizeof buffer);
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
  }

 private:
  std::string path_;
  int fd_ = -1;
};

TEST(ChildProcess, WhenItMustEndItsWholeGroupGoes) {
  const test::TempDir dir;
  const WriterWatch watch(dir);
  // The shell and a process in its background that ignores SIGTERM both hold the pipe.
  ChildCommand command =
      Shell("exec 9> " + watch.path() + "; (trap '' TERM; echo up >&9; exec sleep 1000) & exec sleep 1000");
  command.time_limit_s = 1e6;
  std::atomic<bool> cancel{false};
  std::jthread canceller([&] {
    EXPECT_EQ(watch.Read(), "up\n");
    cancel = true;
  });
  EXPECT_EQ(RunToEnd(command, &cancel).kind, ChildEnd::Kind::kCancelled);
  canceller.join();
  EXPECT_EQ(watch.Read(), "") << "a writer is still there";
}

TEST(ChildProcess, TheTimeLimitHoldsAlsoForThoseThatIgnoreSigterm) {
  ChildCommand command = Shell("trap '' TERM; while :; do sleep 1; done");
  command.time_limit_s = 0.05;
  const ChildEnd end = RunToEnd(command);
  EXPECT_EQ(end.kind, ChildEnd::Kind::kTimedOut);
  EXPECT_EQ(Describe(end, 0.05), "killed after 0.05 s");
}

TEST(ChildProcess, LeavesNoZombie) {
  RunToEnd(Shell("exit 0"));
  ChildCommand command = Shell("sleep 1000");
  command.time_limit_s = 0;
  RunToEnd(command);
  errno = 0;
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace minicpm
