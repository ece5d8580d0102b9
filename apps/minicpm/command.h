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
int BenchCommand(const Arguments& arguments);
int ConvertCommand(const Arguments& arguments);
int VerifyCommand(const Arguments& arguments);
int WatchCommand(const Arguments& arguments);

// Name and version of this program, as bundles record it.
inline constexpr const char* kToolVersion = "minicpm " MINICPM_VERSION;

}  // namespace minicpm::cli
