// The subcommands of the program and what its exit codes mean. Not for options or output: each subcommand's file does
// those.
#pragma once

#include <string>
#include <vector>

namespace minicpm::cli {

// Scripts depend on these numbers.
enum ExitCode {
  kExitDone = 0,
  kExitFailed = 1,  // the work failed: a bad file, a mismatch, a full disk, an interrupt
  kExitUsage = 2,   // the command line makes no sense
};

// `arguments`: what follows the subcommand's name. Each prints its own errors, one sentence each, and returns an
// ExitCode.
using Arguments = std::vector<std::string>;
int RunCommand(const Arguments& arguments);
int ChatCommand(const Arguments& arguments);
int InspectCommand(const Arguments& arguments);

}  // namespace minicpm::cli
