// Implementation of arguments.h. CLI11's exceptions end here.
#include "arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <system_error>

#include "command.h"

namespace minicpm::cli {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string s;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) s += i + 1 == words.size() ? " or " : ", ";
    s += words[i];
  }
  return s;
}

// "0.05" rather than "0.050000".
std::string Short(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

// What CLI11 found wrong, in one sentence without a full stop.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = app.remaining();
    const std::string first = extras.empty() ? "" : extras.front();
    return (first.starts_with('-') ? "unknown option " : "unexpected argument ") + Printable(first, 200);
  }
  std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return text + ", but it is missing";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return text.substr(0, text.find(':')) + " needs a value";
  }
  return Printable(text, 400);
}

// `help` with line breaks, so that it fits beside the column of names in a terminal of 120 characters.
std::string Wrapped(const std::string& help) {
  constexpr size_t kWidth = 88;
  std::string out;
  size_t line_begin = 0;
  std::istringstream words(help);
  for (std::string word; words >> word;) {
    if (!out.empty()) {
      const bool fits = out.size() - line_begin + 1 + word.size() <= kWidth;
      out += fits ? ' ' : '\n';
      if (!fits) line_begin = out.size();
    }
    out += word;
  }
  return out;
}

CLI::Option* Single(CLI::Option* option, const std::string& value_name) {
  return option->type_name(value_name)->take_last()->allow_extra_args(false);
}

}  // namespace

std::optional<int> ParseArguments(CLI::App& app, std::vector<std::string> arguments) {
  app.set_help_flag("-h,--help", "print this and leave");
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 takes vectors in
  try {
    app.parse(arguments);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    // A text longer than the buffer may fail before the flush, which then has nothing left to fail with.
    const bool written = std::fputs(app.help().c_str(), stdout) >= 0;
    return written && std::fflush(stdout) == 0 ? kExitDone : kExitFailed;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "minicpm: %s (`%s --help` explains the options)\n", Explain(app, error).c_str(),
                 app.get_name().c_str());
    return kExitUsage;
  }
}

CLI::Option* AddFlag(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return app.add_flag(names, value, Wrapped(help));
}

CLI::Option* AddText(CLI::App& app, const std::string& names, std::string& value, const std::string& help,
                     const std::string& value_name) {
  return Single(app.add_option(names, value, Wrapped(help)), value_name);
}

CLI::Option* AddOptionalText(CLI::App& app, const std::string& names, std::optional<std::string>& value,
                             const std::string& help, const std::string& value_name) {
  return Single(app.add_option_function<std::string>(
                    names, [&value](const std::string& text) { value = text; }, Wrapped(help)),
                value_name);
}

CLI::Option* AddTextList(CLI::App& app, const std::string& names, std::vector<std::string>& values,
                         const std::string& help, const std::string& value_name) {
  return app.add_option(names, values, Wrapped(help))
      ->type_name(value_name)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

CLI::Option* AddTextEach(CLI::App& app, const std::string& names, std::function<void(const std::string&)> take,
                         const std::string& help, const std::string& value_name) {
  return app.add_option_function<std::string>(names, std::move(take), Wrapped(help))
      ->type_name(value_name)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->trigger_on_parse()
      ->allow_extra_args(false);
}

CLI::Option* AddChoice(CLI::App& app, const std::string& names, std::string& value,
                       const std::vector<std::string>& choices, const std::string& help) {
  std::string value_name;
  for (const std::string& choice : choices) value_name += (value_name.empty() ? "" : "|") + choice;
  const auto check = [choices](const std::string& text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
    return "expected " + Join(choices) + ", found \"" + Printable(text) + "\"";
  };
  return Single(app.add_option(names, value, Wrapped(help))->check(CLI::Validator(check, "")), value_name);
}

CLI::Option* AddInteger(CLI::App& app, const std::string& names, std::optional<int64_t>& value, int64_t min,
                        int64_t max, const std::string& help) {
  const auto check = [min, max](const std::string& text) -> std::string {
    const auto number = ParseInteger(text, min, max);
    return number.has_value() ? "" : number.error().message;
  };
  const auto set = [&value, min, max](const std::string& text) {
    if (const auto number = ParseInteger(text, min, max)) value = *number;
  };
  return Single(app.add_option_function<std::string>(names, set, Wrapped(help))->check(CLI::Validator(check, "")), "N");
}

CLI::Option* AddNumber(CLI::App& app, const std::string& names, std::optional<double>& value, double min, double max,
                       const std::string& help) {
  const auto check = [min, max](const std::string& text) -> std::string {
    const auto number = ParseNumber(text, min, max);
    return number.has_value() ? "" : number.error().message;
  };
  const auto set = [&value, min, max](const std::string& text) {
    if (const auto number = ParseNumber(text, min, max)) value = *number;
  };
  return Single(app.add_option_function<std::string>(names, set, Wrapped(help))->check(CLI::Validator(check, "")), "X");
}

Result<int64_t> ParseInteger(const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= min && value <= max) return value;
  return Fail(ErrorCode::kInvalidArgument, "expected a whole number from " + std::to_string(min) + " to " +
                                               std::to_string(max) + ", found \"" + Printable(text) + "\"");
}

Result<double> ParseNumber(const std::string& text, double min, double max) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && std::isfinite(value) && value >= min && value <= max) return value;
  return Fail(ErrorCode::kInvalidArgument,
              "expected a number from " + Short(min) + " to " + Short(max) + ", found \"" + Printable(text) + "\"");
}

}  // namespace minicpm::cli
