// Implementation of interrupt.h. The handler does nothing but store into lock-free atomics.
#include "interrupt.h"

#include <signal.h>

namespace minicpm::cli {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch lock-free atomics only");
std::atomic<bool> interrupted{false};
std::atomic<bool> asked_to_leave{false};

void OnInterrupt(int /*signal*/) { interrupted.store(true, std::memory_order_relaxed); }

void OnLeave(int /*signal*/) {
  asked_to_leave.store(true, std::memory_order_relaxed);
  interrupted.store(true, std::memory_order_relaxed);
}

void Install(int number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void StopOnInterrupt() {
  Install(SIGINT, OnInterrupt, static_cast<int>(SA_RESETHAND) | SA_RESTART);
  Install(SIGTERM, OnInterrupt, static_cast<int>(SA_RESETHAND) | SA_RESTART);
  // A closed terminal is a wish to end, unless somebody asked (nohup) not to hear of it.
  struct sigaction now = {};
  if (sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) {
    Install(SIGHUP, OnInterrupt, static_cast<int>(SA_RESETHAND) | SA_RESTART);
  }
}

void CatchInterrupts() {
  Install(SIGINT, OnInterrupt, 0);
  Install(SIGTERM, OnLeave, 0);
  Install(SIGHUP, OnLeave, 0);
}

const std::atomic<bool>& InterruptFlag() { return interrupted; }
bool Interrupted() { return interrupted.load(std::memory_order_relaxed); }
void ClearInterrupt() { interrupted.store(false, std::memory_order_relaxed); }
bool AskedToLeave() { return asked_to_leave.load(std::memory_order_relaxed); }

}  // namespace minicpm::cli
