// Implementation of selftest.h. Greedy steps go through Session::Feed, so every id comes with its row of logits; the
// comparison feeds the recorded ids, so that one close call does not change what follows.
#include "convert/selftest.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "engine/session.h"
#include "store/bundle_manifest.h"
#include "store/json.h"

namespace minicpm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "minicpm-selftest";
constexpr const char* kRecordingIsa = "scalar";
constexpr int64_t kContext = 512;

// A disc on a gradient with a dark bar: something with edges, drawn with whole numbers so that it is the same
// everywhere.
Image BuiltInPicture() {
  Image image;
  image.width = 70;
  image.height = 56;
  image.rgb.resize(static_cast<size_t>(3 * image.width * image.height));
  for (int y = 0; y < 56; ++y) {
    for (int x = 0; x < 70; ++x) {
      uint8_t* const pixel = image.rgb.data() + 3 * (y * 70 + x);
      const bool disc = (x - 22) * (x - 22) + (y - 26) * (y - 26) < 300;
      const bool bar = x >= 48 && x < 58 && y >= 8 && y < 50;
      pixel[0] = static_cast<uint8_t>(disc ? 220 : bar ? 20 : 40 + 2 * x);
      pixel[1] = static_cast<uint8_t>(disc ? 40 : bar ? 30 : 60 + 3 * y);
      pixel[2] = static_cast<uint8_t>(disc ? 30 : bar ? 90 : 200 - 2 * x);
    }
  }
  return image;
}

struct Question {
  const char* name;
  const char* text;
  bool picture;
};
constexpr Question kQuestions[] = {{"text", "Count from one to ten, then say which of them are prime.", false},
                                   {"picture", "What is in the image? Name shapes and colours.", true}};

Result<Prompt> PromptOf(const Engine& engine, const std::string& text, bool picture) {
  Message message;
  if (picture) message.parts.push_back({"", MakeImageInput("built-in picture", BuiltInPicture()), nullptr, nullptr});
  message.parts.push_back({text});
  PromptOptions options;
  options.max_slices = 1;
  return engine.BuildPrompt({&message, 1}, options);
}

struct Top {
  int32_t id = 0;
  float first = -INFINITY;
  float second = -INFINITY;
  double deviation = 0;  // of all logits
};
Top TopOf(std::span<const float> logits) {
  Top top;
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sum += static_cast<double>(logits[i]);
    squares += static_cast<double>(logits[i]) * static_cast<double>(logits[i]);
    if (logits[i] > top.first) {
      top.second = top.first;
      top.first = logits[i];
      top.id = static_cast<int32_t>(i);
    } else if (logits[i] > top.second) {
      top.second = logits[i];
    }
  }
  const double n = static_cast<double>(std::max<size_t>(logits.size(), 1));
  top.deviation = std::sqrt(std::max(squares / n - sum / n * (sum / n), 0.0));
  return top;
}

// A loaded model with one session.
struct Loaded {
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Session> session;
};
Result<Loaded> Load(const std::string& folder, int n_threads, const std::string& isa) {
  Loaded loaded;
  MINICPM_ASSIGN(loaded.engine, Engine::Open(folder, {}));
  BackendOptions options;
  options.n_threads = n_threads;
  options.isa = isa;
  options.context = kContext;
  options.kv_dtype = DType::kF16;
  MINICPM_ASSIGN(loaded.backend, loaded.engine->NewBackend(options));
  SessionOptions session_options;
  session_options.context = kContext;
  MINICPM_ASSIGN(loaded.session, Session::Create(loaded.engine, *loaded.backend, session_options));
  return loaded;
}

bool HasPackedWeights(const Engine& engine) {
  for (const ModelSummary::Part& part : engine.Summary().parts) {
    for (const std::string& dtype : part.dtypes) {
      if (dtype == NameOf(DType::kInt8Packed) || dtype == NameOf(DType::kInt4Packed)) return true;
    }
  }
  return false;
}

// Millionths; what is no number counts as no margin.
double Rounded(double value) { return std::isfinite(value) ? std::round(value * 1e6) / 1e6 : 0.0; }

struct Recorded {
  std::string name;
  std::string text;
  bool picture = false;
  std::vector<int64_t> ids;
  std::vector<double> margins;
  std::vector<double> tolerances;
};

Result<Recorded> ReadRecorded(const JsonObject& json, int64_t n_vocab) {
  Recorded r;
  MINICPM_ASSIGN(r.name, json.String("name"));
  MINICPM_ASSIGN(r.text, json.String("text"));
  MINICPM_ASSIGN(r.picture, json.Bool("picture"));
  MINICPM_ASSIGN(r.ids, json.IntListOr("token_ids", {}, 0, n_vocab - 1));
  MINICPM_ASSIGN(r.margins, json.NumberListOr("margins", {}, 0));
  MINICPM_ASSIGN(r.tolerances, json.NumberListOr("tolerances", {}, 0));
  if (r.ids.empty() || r.ids.size() > 256 || r.margins.size() != r.ids.size() || r.tolerances.size() != r.ids.size() ||
      r.text.size() > 400) {
    return json.Complain("token_ids", "up to 256 ids, each with a margin and a tolerance");
  }
  return r;
}

Status Compare(Loaded& loaded, const Recorded& r, bool same_kernels, const std::atomic<bool>* cancel,
               SelfTestResult& result) {
  MINICPM_ASSIGN(Prompt prompt, PromptOf(*loaded.engine, r.text, r.picture));
  for (size_t i = 0; i < r.ids.size(); ++i) {
    MINICPM_ASSIGN(const bool fed, loaded.session->Feed(prompt, cancel, nullptr));
    if (!fed) {
      result.cancelled = true;
      return {};
    }
    const Top top = TopOf(loaded.session->last_logits());
    ++result.n_compared;
    const bool decisive = r.margins[i] > (same_kernels ? kSelfTestMargin : r.tolerances[i]);
    result.n_decisive += decisive ? 1 : 0;
    if (top.id != r.ids[i] && !decisive) {
      ++result.n_close;
    } else if (top.id != r.ids[i]) {
      result.mismatches.push_back("self-test \"" + Printable(r.name) + "\": token " + std::to_string(i + 1) + " is " +
                                  std::to_string(top.id) + ", expected " + std::to_string(r.ids[i]) +
                                  " (recorded with a margin of " + std::to_string(r.margins[i]) + ")");
    }
    prompt.ids.push_back(static_cast<int32_t>(r.ids[i]));
  }
  return {};
}

}  // namespace

Result<std::optional<std::string>> MakeSelfTest(const std::string& folder, int n_threads,
                                                const std::atomic<bool>* cancel) {
  MINICPM_ASSIGN(Loaded loaded, Load(folder, n_threads, kRecordingIsa));
  const bool packed = HasPackedWeights(*loaded.engine);
  Json prompts = Json::array();
  for (const Question& question : kQuestions) {
    MINICPM_ASSIGN(Prompt prompt, PromptOf(*loaded.engine, question.text, question.picture));
    Json ids = Json::array();
    Json margins = Json::array();
    Json tolerances = Json::array();
    for (int i = 0; i < kSelfTestTokens; ++i) {
      MINICPM_ASSIGN(const bool fed, loaded.session->Feed(prompt, cancel, nullptr));
      if (!fed) return std::optional<std::string>();
      const Top top = TopOf(loaded.session->last_logits());
      ids.push_back(top.id);
      const double margin = static_cast<double>(top.first) - static_cast<double>(top.second);
      margins.push_back(Rounded(margin));
      tolerances.push_back(
          Rounded(packed ? std::max(kSelfTestMargin, kSelfTestPackedMargin * top.deviation) : kSelfTestMargin));
      prompt.ids.push_back(top.id);
    }
    prompts.push_back({{"name", question.name},
                       {"text", question.text},
                       {"picture", question.picture},
                       {"token_ids", ids},
                       {"margins", margins},
                       {"tolerances", tolerances}});
  }
  const Json json = {{"format", kFormat}, {"format_version", 1}, {"isa", kRecordingIsa}, {"prompts", prompts}};
  return std::optional<std::string>(json.dump(1) + "\n");
}

Result<SelfTestResult> RunSelfTest(const std::string& folder, int n_threads, const std::string& isa,
                                   const std::atomic<bool>* cancel) {
  MINICPM_ASSIGN(const JsonObject json, JsonObject::ReadFile(folder + "/" + kSelfTestFileName, size_t{1} << 20));
  MINICPM_ASSIGN(const std::string format, json.String("format"));
  if (format != kFormat) return json.Complain("format", std::string("\"") + kFormat + "\"");
  MINICPM_TRY(json.Int("format_version", 1, 1));
  MINICPM_ASSIGN(Loaded loaded, Load(folder, n_threads, isa));
  MINICPM_ASSIGN(const std::vector<JsonObject> prompts, json.ObjectList("prompts"));
  SelfTestResult result;
  result.isa = loaded.backend->isa();
  const bool same_kernels = result.isa == kRecordingIsa;
  for (const JsonObject& entry : prompts) {
    MINICPM_ASSIGN(const Recorded recorded,
                   ReadRecorded(entry, static_cast<int64_t>(loaded.session->last_logits().size())));
    MINICPM_TRY(Compare(loaded, recorded, same_kernels, cancel, result));
    if (result.cancelled) return result;
  }
  if (result.n_compared == 0) return json.Complain("prompts", "at least one prompt");
  return result;
}

}  // namespace minicpm
