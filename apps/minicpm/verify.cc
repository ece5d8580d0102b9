// `minicpm verify`: is a bundle what it was when it was made, as text or as JSON (docs/json/verify.schema.json).
#include "convert/verify.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "arguments.h"
#include "command.h"
#include "console.h"
#include "interrupt.h"

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    R"(Checks the SHA-256 of every tensor and file against bundle.json, the promises that kernels rely on, and, with
selftest.json, that the model still answers as it did when it was made (another token counts only where the recorded
margin was large enough, docs/bundle.md). Whatever is wrong is named, one line each.
Exit code: 0 all is well, 1 something is not, or interrupted, 2 wrong usage.

Examples:
  minicpm verify bundles/v45-int4
  minicpm verify bundles/v45-int4 --no-selftest --json)";

struct VerifyFlags {
  std::string bundle;
  bool json = false;
  bool no_selftest = false;
  std::optional<int64_t> threads;
  std::string isa;
};

double GigabytesPerSecond(const VerifyReport& r) {
  return r.hash_ms > 0 ? static_cast<double>(r.n_bytes) / r.hash_ms / 1e6 : 0;
}

Json SelfTestJson(const VerifyReport& r) {
  if (!r.selftest.has_value()) return {{"present", r.has_selftest}, {"run", false}};
  return {{"present", true},
          {"run", true},
          {"isa", r.selftest->isa},
          {"tokens", r.selftest->n_compared},
          {"decisive", r.selftest->n_decisive},
          {"within_margin", r.selftest->n_close},
          {"mismatches", r.selftest->mismatches.size()},
          {"ms", r.selftest_ms}};
}

std::string ReportJson(const VerifyFlags& flags, const VerifyReport& r) {
  Json problems = Json::array();
  for (const VerifyProblem& p : r.problems) {
    problems.push_back(
        {{"file", p.file}, {"tensor", p.tensor.empty() ? Json(nullptr) : Json(p.tensor)}, {"what", p.what}});
  }
  const Json json = {{"bundle", flags.bundle},
                     {"ok", r.problems.empty() && !r.cancelled},
                     {"complete", !r.cancelled},
                     {"tensors", r.n_tensors},
                     {"files", r.n_files},
                     {"bytes", r.n_bytes},
                     {"ms", r.hash_ms},
                     {"gb_s", GigabytesPerSecond(r)},
                     {"problems", problems},
                     {"notes", r.notes},
                     {"selftest", SelfTestJson(r)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string SelfTestLine(const VerifyFlags& flags, const VerifyReport& r) {
  if (r.selftest.has_value()) {
    const SelfTestResult& s = *r.selftest;
    std::string line =
        "self-test: " + std::to_string(s.n_compared - s.n_close - static_cast<int>(s.mismatches.size())) + " of " +
        std::to_string(s.n_compared) + " tokens the same on " + s.isa + " (" + std::to_string(s.n_decisive) +
        " have a margin that counts)";
    if (s.n_close > 0) line += ", " + std::to_string(s.n_close) + " within the margin";
    return line;
  }
  return !r.has_selftest     ? "self-test: none in the bundle"
         : flags.no_selftest ? "self-test: not run (--no-selftest)"
                             : "self-test: not run, because of the above";
}

void PrintReport(const VerifyFlags& flags, const VerifyReport& r, Console& console) {
  for (const VerifyProblem& problem : r.problems) console.Error(problem.what);
  for (const std::string& note : r.notes) console.Note(note);
  if (r.cancelled) return console.Error("interrupted before everything was checked");
  char text[160];
  std::snprintf(text, sizeof text, "%s: %lld tensors and %lld files, %.2f GB at %.2f GB/s\n",
                r.problems.empty() ? "all is well" : "damaged", static_cast<long long>(r.n_tensors),
                static_cast<long long>(r.n_files), static_cast<double>(r.n_bytes) / 1e9, GigabytesPerSecond(r));
  console.Answer(text);
  console.Answer(SelfTestLine(flags, r) + "\n");
}

class CheckLine : public ConvertListener {
 public:
  explicit CheckLine(Console& console) : console_(console) {}
  void OnProgress(const char* what, uint64_t done, uint64_t total) override {
    if (total == 0) return console_.Transient(std::string(what) + " ...");
    const int percent = static_cast<int>(100 * done / total);
    if (percent != percent_) console_.Transient(std::string(what) + ": " + std::to_string(percent) + " %");
    percent_ = percent;
  }

 private:
  Console& console_;
  int percent_ = -1;
};

}  // namespace

int VerifyCommand(const Arguments& arguments) {
  CLI::App app("Checks every byte of a bundle, and that its model still answers as it did.", "minicpm verify");
  VerifyFlags flags;
  AddText(app, "BUNDLE", flags.bundle, "folder that `minicpm convert` made", "")->required();
  AddFlag(app, "--json", flags.json, "print one JSON object (docs/json/verify.schema.json)");
  AddFlag(app, "--no-selftest", flags.no_selftest, "only hashes and weights, do not run the model");
  AddInteger(app, "--threads", flags.threads, 1, 1024, "default: all usable cores");
  AddText(app, "--isa", flags.isa, "kernels for the self-test (default: the best that this CPU runs)", "NAME");
  app.footer(kFooter);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(false);
  StopOnInterrupt();
  CheckLine progress(console);
  VerifyOptions options;
  options.folder = flags.bundle;
  options.selftest = !flags.no_selftest;
  options.n_threads = static_cast<int>(flags.threads.value_or(0));
  options.isa = flags.isa;
  options.cancel = &InterruptFlag();
  options.listener = &progress;
  const auto report = VerifyBundle(options);
  console.Transient("");
  if (!report.has_value()) {
    console.Error(report.error().message);
    return kExitFailed;
  }
  if (flags.json) {
    console.Answer(ReportJson(flags, *report));
  } else {
    PrintReport(flags, *report, console);
  }
  if (console.out_failed()) {
    console.Error("stdout: the result could not be written completely");
    return kExitFailed;
  }
  return report->problems.empty() && !report->cancelled ? kExitDone : kExitFailed;
}

}  // namespace minicpm::cli
