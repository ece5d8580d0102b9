// Implementation of recipe.h. kRules is the one place where formats are chosen.
#include "convert/recipe.h"

#include <algorithm>
#include <set>

#include "backends/native/native_model.h"

namespace minicpm {
namespace {

enum class Format { kSource, kF32, kF16, kBF16, kInt8, kInt4 };

struct FormatName {
  const char* name;
  Format format;
};
constexpr FormatName kFormats[] = {{"f32", Format::kF32},   {"f16", Format::kF16},   {"bf16", Format::kBF16},
                                   {"int8", Format::kInt8}, {"int4", Format::kInt4}, {"source", Format::kSource}};

enum class Option { kWeights, kVision, kResampler, kAudio, kHead, kEmbeddings };

// What one kind of tensor becomes. Packed formats need rows that are multiplied or gathered: everything else stays a
// float also where the option asks for integers. Vectors (norms, biases, queries) always stay as they were.
struct Rule {
  const char* part;
  TensorRole role;
  const char* group;
  Option option;
  bool can_pack;
  Format with_int8;  // default for --weights int8
  Format with_int4;  // default for --weights int4
};
constexpr Rule kRules[] = {
    {"vision", TensorRole::kLinear, "vision.linear", Option::kVision, true, Format::kInt8, Format::kInt8},
    {"vision", TensorRole::kConv, "vision.patches", Option::kVision, false, Format::kSource, Format::kSource},
    {"vision", TensorRole::kEmbedding, "vision.positions", Option::kVision, false, Format::kSource, Format::kSource},
    {"resampler", TensorRole::kLinear, "resampler.linear", Option::kResampler, true, Format::kInt8, Format::kInt8},
    {"resampler", TensorRole::kPlain, "resampler.projection", Option::kResampler, false, Format::kSource,
     Format::kSource},
    {"audio", TensorRole::kLinear, "audio.linear", Option::kAudio, true, Format::kInt8, Format::kInt8},
    {"audio", TensorRole::kConv, "audio.convolutions", Option::kAudio, false, Format::kSource, Format::kSource},
    {"audio", TensorRole::kEmbedding, "audio.positions", Option::kAudio, false, Format::kSource, Format::kSource},
    {"language", TensorRole::kEmbedding, "language.embeddings", Option::kEmbeddings, true, Format::kInt8,
     Format::kInt4},
    {"language", TensorRole::kLinear, "language.linear", Option::kWeights, true, Format::kInt8, Format::kInt4},
    {"language", TensorRole::kHead, "language.head", Option::kHead, true, Format::kInt8, Format::kInt4},
};

bool IsPackedFormat(Format format) { return format == Format::kInt8 || format == Format::kInt4; }

const char* NameOfFormat(Format format) {
  for (const FormatName& f : kFormats) {
    if (f.format == format) return f.name;
  }
  return "source";
}

// As the manifest shows it.
std::string Shown(Format format) {
  std::string name = NameOfFormat(format);
  if (format != Format::kSource)
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' ? c - 32 : c; });
  return name;
}

DType DTypeOf(Format format, DType source) {
  switch (format) {
    case Format::kF32:
      return DType::kF32;
    case Format::kF16:
      return DType::kF16;
    case Format::kBF16:
      return DType::kBF16;
    case Format::kInt8:
      return DType::kInt8Packed;
    case Format::kInt4:
      return DType::kInt4Packed;
    case Format::kSource:
      break;
  }
  return source;
}

std::unexpected<Error> Usage(const std::string& what) { return Fail(ErrorCode::kInvalidArgument, what); }

Result<Format> ParseFormat(const std::string& option, std::string_view text) {
  for (const FormatName& f : kFormats) {
    if (text == f.name) return f.format;
  }
  return Usage(option + ": expected f32, f16, bf16, int8, int4 or source, found \"" + Printable(text) + "\"");
}

bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

// One --keep.
struct Keep {
  std::string text;
  std::string glob;
  Format format;
  bool used = false;
};

// The options, read.
struct Choices {
  Format weights = Format::kInt4;
  std::optional<Format> vision, resampler, audio, head, embeddings;
  std::vector<Keep> keep;

  const std::optional<Format>& Of(Option option) const {
    static constexpr std::optional<Format> kNone;
    switch (option) {
      case Option::kVision:
        return vision;
      case Option::kResampler:
        return resampler;
      case Option::kAudio:
        return audio;
      case Option::kHead:
        return head;
      case Option::kEmbeddings:
        return embeddings;
      case Option::kWeights:
        break;
    }
    return kNone;
  }
};

Result<Choices> ReadChoices(const RecipeOptions& options, bool tied_head) {
  Choices c;
  MINICPM_ASSIGN(c.weights, ParseFormat("--weights", options.weights));
  const auto read = [](const char* name, const std::optional<std::string>& text,
                       std::optional<Format>& into) -> Status {
    if (!text.has_value()) return {};
    MINICPM_ASSIGN(into, ParseFormat(name, *text));
    return {};
  };
  MINICPM_TRY(read("--vision", options.vision, c.vision));
  MINICPM_TRY(read("--resampler", options.resampler, c.resampler));
  MINICPM_TRY(read("--audio", options.audio, c.audio));
  MINICPM_TRY(read("--head", options.head, c.head));
  MINICPM_TRY(read("--embeddings", options.embeddings, c.embeddings));
  if (c.audio == Format::kInt4) {
    return Usage(
        "--audio: expected f32, f16, bf16, int8 or source, found \"int4\" (arithmetic, not bytes, is what sound "
        "costs)");
  }
  if (tied_head) {
    if (c.head.has_value() && c.embeddings.has_value() && *c.head != *c.embeddings) {
      return Usage("--head " + *options.head + " and --embeddings " + *options.embeddings +
                   " contradict each other: this model's head is its embedding table");
    }
    c.head = c.embeddings = c.embeddings.has_value() ? c.embeddings : c.head;
  }
  for (const std::string& text : options.keep) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return Usage("--keep: expected PATTERN=FORMAT, found \"" + Printable(text) + "\"");
    }
    MINICPM_ASSIGN(const Format format, ParseFormat("--keep " + Printable(text), text.substr(equals + 1)));
    c.keep.push_back({text, text.substr(0, equals), format});
  }
  return c;
}

Format FormatBy(const Rule& rule, const Choices& c) {
  const Format by_weights = c.weights == Format::kInt8   ? rule.with_int8
                            : c.weights == Format::kInt4 ? rule.with_int4
                                                         : c.weights;
  const Format format = c.Of(rule.option).value_or(by_weights);
  return IsPackedFormat(format) && !rule.can_pack ? Format::kSource : format;
}

class Planner {
 public:
  Planner(const ModelConfig& config, std::span<const SourceTensor> source, Choices choices)
      : config_(config), choices_(std::move(choices)) {
    for (const SourceTensor& tensor : source) rest_.emplace(tensor.name, &tensor);
  }

  Status AddListed() {
    for (const PartListing& listing : ListTensors(config_)) {
      for (const TensorSpec& spec : listing.tensors) MINICPM_TRY(AddListed(listing.part, spec));
    }
    return {};
  }

  Status AddRest(bool keep_unused) {
    for (const auto& [name, tensor] : rest_) {
      if (!keep_unused || name.starts_with(kPadPrefix)) {
        plan_.dropped.push_back({std::string(name), tensor->dtype, tensor->shape});
        continue;
      }
      MINICPM_TRY(Add(*tensor, "unused", Format::kSource, false));
    }
    return {};
  }

  Result<Plan> Finish() {
    for (const Keep& keep : choices_.keep) {
      if (!keep.used) return Usage("--keep " + Printable(keep.text) + ": no tensor of the bundle matches");
    }
    return std::move(plan_);
  }

 private:
  Status AddListed(std::string_view part, const TensorSpec& spec) {
    const auto it = rest_.find(spec.name);
    if (it == rest_.end()) {
      return Fail(ErrorCode::kNotFound,
                  "tensor \"" + spec.name + "\" is missing, expected one of shape " + spec.shape.ToString());
    }
    const SourceTensor& tensor = *it->second;
    rest_.erase(it);
    if (tensor.shape != spec.shape || !IsFloat(tensor.dtype)) {
      return Fail(ErrorCode::kCorrupt, "tensor \"" + spec.name + "\" is " + NameOf(tensor.dtype) + " " +
                                           tensor.shape.ToString() + ", expected F32, F16 or BF16 " +
                                           spec.shape.ToString());
    }
    for (const Rule& rule : kRules) {
      if (rule.part == part && rule.role == spec.role) {
        return Add(tensor, rule.group, FormatBy(rule, choices_), rule.can_pack);
      }
    }
    return Add(tensor, std::string(part) + ".vectors", Format::kSource, false);
  }

  Status Add(const SourceTensor& tensor, std::string group, Format format, bool can_pack) {
    for (Keep& keep : choices_.keep) {
      if (!MatchesGlob(keep.glob, tensor.name)) continue;
      if (IsPackedFormat(keep.format) && !can_pack) {
        return Usage("--keep " + Printable(keep.text) + ": tensor \"" + Printable(tensor.name) +
                     "\" cannot be packed, expected a float format or source");
      }
      if (keep.format != Format::kSource && !IsFloat(tensor.dtype)) {
        return Usage("--keep " + Printable(keep.text) + ": tensor \"" + Printable(tensor.name) + "\" is " +
                     NameOf(tensor.dtype) + " and can only be kept as source");
      }
      keep.used = true;
      format = keep.format;
      group = "keep " + keep.text;
    }
    if (std::ranges::find(plan_.groups, group, &BundleGroup::name) == plan_.groups.end()) {
      BundleGroup& added = plan_.groups.emplace_back();
      added.name = group;
      added.format = Shown(format);
    }
    plan_.tensors.push_back({tensor.name, tensor.shape, tensor.dtype, DTypeOf(format, tensor.dtype), std::move(group)});
    return {};
  }

  const ModelConfig& config_;
  Choices choices_;
  std::map<std::string_view, const SourceTensor*> rest_;
  Plan plan_;
};

}  // namespace

bool MatchesGlob(std::string_view glob, std::string_view text) {
  size_t g = 0;
  size_t t = 0;
  size_t star = glob.npos;  // the last * seen, and where its run of characters would end
  size_t resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != glob.npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == glob.npos;
}

Result<Plan> MakePlan(const ModelConfig& config, std::span<const SourceTensor> source, const RecipeOptions& options) {
  MINICPM_ASSIGN(Choices choices, ReadChoices(options, config.decoder.tied_head));
  std::map<std::string, std::string> recipe;
  recipe["weights"] = NameOfFormat(choices.weights);
  for (const Rule& rule : kRules) {
    if (rule.can_pack && rule.option != Option::kWeights &&
        !(rule.option == Option::kHead && config.decoder.tied_head) &&
        !(rule.option == Option::kAudio && !config.audio.has_value())) {
      const char* const names[] = {"weights", "vision", "resampler", "audio", "head", "embeddings"};
      recipe[names[static_cast<size_t>(rule.option)]] = NameOfFormat(FormatBy(rule, choices));
    }
  }
  std::string keep;
  for (const Keep& k : choices.keep) keep += (keep.empty() ? "" : " ") + k.text;
  if (!keep.empty()) recipe["keep"] = keep;
  if (options.keep_unused) recipe["keep_unused"] = "yes";

  Planner planner(config, source, std::move(choices));
  MINICPM_TRY(planner.AddListed());
  MINICPM_TRY(planner.AddRest(options.keep_unused));
  MINICPM_ASSIGN(Plan plan, planner.Finish());
  plan.recipe = std::move(recipe);
  return plan;
}

}  // namespace minicpm
