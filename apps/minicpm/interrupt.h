// Ctrl-C and friends, turned into a flag that the engine polls. Not for threads: signals belong to the whole process,
// so this is the one piece of global state in the program.
#pragma once

#include <atomic>

namespace minicpm::cli {

// From now on SIGINT and SIGTERM raise the flag. A second signal of the same kind ends the program as usual, so that a
// step which does not look at the flag cannot hold the user.
void StopOnInterrupt();
// From now on SIGINT raises the flag, as often as it comes; SIGTERM and SIGHUP raise it and ask to leave. System calls
// that wait return early.
void CatchInterrupts();

// Raised by a signal; hand it to the engine as its cancel flag.
const std::atomic<bool>& InterruptFlag();
bool Interrupted();
void ClearInterrupt();
// SIGTERM or SIGHUP came; never cleared.
bool AskedToLeave();

}  // namespace minicpm::cli
