// The program `minicpm`: finds the subcommand and hands over. Not for options; each subcommand has its own file.
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "base/status.h"
#include "command.h"
#include "os/standard_streams.h"

namespace {

using minicpm::cli::Arguments;
using minicpm::cli::kExitDone;
using minicpm::cli::kExitFailed;
using minicpm::cli::kExitUsage;

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments& arguments);
};

constexpr Command kCommands[] = {
    {"run", "ask one question, with or without pictures, sound and videos", minicpm::cli::RunCommand},
    {"chat", "talk with the model, turn by turn", minicpm::cli::ChatCommand},
    {"watch", "look at a camera, a stream, a video or a folder continuously, and raise alarms",
     minicpm::cli::WatchCommand},
    {"inspect", "what is in a model folder: family, shapes, formats, sizes, licence", minicpm::cli::InspectCommand},
    {"bench", "how fast a model is on this machine, beside what the machine can do", minicpm::cli::BenchCommand},
    {"convert", "make a bundle with smaller weights from an official checkpoint", minicpm::cli::ConvertCommand},
    {"verify", "check every byte of a bundle, and that its model still answers as it did", minicpm::cli::VerifyCommand},
};

std::string CommandNames() {
  std::string names;
  for (const Command& command : kCommands) names += (names.empty() ? "" : ", ") + std::string(command.name);
  return names;
}

void PrintHelp(std::FILE* out) {
  std::fputs(
      "minicpm: MiniCPM-V 2.6, MiniCPM-V 4.5 and MiniCPM-o 4.5 (pictures, sound, video and text) on a CPU\n\n"
      "Usage: minicpm COMMAND MODEL [options]\n"
      "MODEL is a bundle that `minicpm convert` made, or the folder of an official checkpoint (config.json, tokenizer "
      "files,\nsafetensors), used as published.\n\n"
      "Commands:\n",
      out);
  for (const Command& command : kCommands) std::fprintf(out, "  %-10s %s\n", command.name, command.summary);
  std::fputs(
      "\n`minicpm COMMAND --help` explains the options of each. `minicpm --version` prints the version.\n"
      "Exit code: 0 done, 1 the work failed, 2 wrong usage. Nothing is ever fetched from the network.\n\n"
      "Examples:\n"
      "  minicpm inspect models/MiniCPM-V-4_5\n"
      "  minicpm run models/MiniCPM-V-4_5 -p \"What is in the image?\" --image photo.jpg\n"
      "  minicpm convert models/MiniCPM-V-4_5 bundles/v45-int4\n"
      "  minicpm chat bundles/v45-int4\n",
      out);
}

int Dispatch(const Arguments& words) {
  if (words.empty()) {
    PrintHelp(stderr);
    return kExitUsage;
  }
  const std::string& name = words.front();
  if (name == "--help" || name == "-h" || name == "help") {
    PrintHelp(stdout);
    return std::fflush(stdout) == 0 ? kExitDone : kExitFailed;
  }
  if (name == "--version") {
    std::puts("minicpm " MINICPM_VERSION);
    return std::fflush(stdout) == 0 ? kExitDone : kExitFailed;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(Arguments(words.begin() + 1, words.end()));
  }
  std::fprintf(stderr, "minicpm: unknown %s \"%s\", expected one of %s\n", name.starts_with('-') ? "option" : "command",
               minicpm::Printable(name, 60).c_str(), CommandNames().c_str());
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  minicpm::SecureStandardStreams();
  try {
    return Dispatch(Arguments(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::bad_alloc&) {
    std::fputs("minicpm: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "minicpm: unexpected failure: %s\n", error.what());
  }
  return kExitFailed;
}
