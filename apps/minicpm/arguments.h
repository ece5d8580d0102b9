// Command lines, read with CLI11 but answered in this program's words: strict numbers, one sentence for every mistake.
// Not for the meaning of options (options.h).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace minicpm::cli {

// Reads `arguments` into the variables bound to `app`. Nothing when the command should go on; otherwise the exit code
// to leave with: help was printed to stdout (0), or a mistake was explained on stderr (2).
std::optional<int> ParseArguments(CLI::App& app, std::vector<std::string> arguments);

// How options are added, so that all of them behave alike: the last of several wins, one value each, the value may
// begin with a dash, a bracket or a comma. `value_name` stands for the value in the help.
CLI::Option* AddFlag(CLI::App& app, const std::string& names, bool& value, const std::string& help);
CLI::Option* AddText(CLI::App& app, const std::string& names, std::string& value, const std::string& help,
                     const std::string& value_name);
CLI::Option* AddOptionalText(CLI::App& app, const std::string& names, std::optional<std::string>& value,
                             const std::string& help, const std::string& value_name);
// May be given several times; every time with one value.
CLI::Option* AddTextList(CLI::App& app, const std::string& names, std::vector<std::string>& values,
                         const std::string& help, const std::string& value_name);
// The same, but `take` is called at every time, so that the order among several such options is kept.
CLI::Option* AddTextEach(CLI::App& app, const std::string& names, std::function<void(const std::string&)> take,
                         const std::string& help, const std::string& value_name);
CLI::Option* AddChoice(CLI::App& app, const std::string& names, std::string& value,
                       const std::vector<std::string>& choices, const std::string& help);
CLI::Option* AddInteger(CLI::App& app, const std::string& names, std::optional<int64_t>& value, int64_t min,
                        int64_t max, const std::string& help);
CLI::Option* AddNumber(CLI::App& app, const std::string& names, std::optional<double>& value, double min, double max,
                       const std::string& help);

// Strict decimal numbers, the whole text and nothing else; used by the options above. The error says what was expected
// and found, without the option's name.
Result<int64_t> ParseInteger(const std::string& text, int64_t min, int64_t max);
Result<double> ParseNumber(const std::string& text, double min, double max);

}  // namespace minicpm::cli
