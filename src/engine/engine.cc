// Implementation of engine.h: opening a model, and the facts others ask of it.
#include "engine/engine.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "backends/native/native_backend.h"
#include "engine/digest.h"
#include "engine/family.h"
#include "engine/prompt_builder.h"
#include "os/memory.h"
#include "quant/packed.h"

namespace minicpm {
namespace {

constexpr uint64_t kWorkingBytes = 250ull << 20;  // scratch, buffers and program besides weights and cache
constexpr int64_t kDefaultNewTokens = 2048;

std::string Megabytes(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB"; }

std::string FirstLine(const std::string& path) {
  auto text = ReadWholeFile(path, 1 << 20);
  if (!text.has_value()) return "";
  const size_t begin = text->find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return Printable(std::string_view(*text).substr(begin, text->find_first_of("\r\n", begin) - begin));
}

}  // namespace

struct Engine::Impl {
  Impl(std::string f, ModelConfig c, Tokenizer t, PlaceholderTokens p)
      : folder(std::move(f)), config(std::move(c)), tokenizer(std::move(t)), placeholders(p) {}
  std::string folder;
  ModelConfig config;
  Tokenizer tokenizer;
  PlaceholderTokens placeholders;
  const FamilyTraits* traits = nullptr;
  std::vector<int32_t> stops;
  std::shared_ptr<const Checkpoint> checkpoint;
  std::shared_ptr<const NativeModel> model;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::shared_ptr<const Engine>> Engine::Open(const std::string& folder, const EngineOptions& options) {
  if (options.engine != "native") {
    return Fail(ErrorCode::kUnsupported,
                "engine \"" + Printable(options.engine) + "\" is not part of this version, expected \"native\"");
  }
  std::error_code ec;
  if (!std::filesystem::is_directory(folder, ec)) {
    return Fail(ErrorCode::kNotFound, Printable(folder, 400) + ": no such folder, expected an official checkpoint");
  }
  MINICPM_ASSIGN(ModelConfig config, ReadModelConfig(folder));
  MINICPM_ASSIGN(Tokenizer tokenizer, Tokenizer::Load(folder));
  if (tokenizer.vocab_size() > config.decoder.n_vocab) {
    return Fail(ErrorCode::kCorrupt, Printable(folder, 400) + ": the tokenizer has ids up to " +
                                         std::to_string(tokenizer.vocab_size() - 1) +
                                         ", but config.json says vocab_size " + std::to_string(config.decoder.n_vocab));
  }
  auto placeholders = FindPlaceholderTokens(tokenizer, TraitsOf(config.family), config.audio.has_value());
  if (!placeholders.has_value()) return Annotate(Printable(folder, 400), std::move(placeholders).error());
  MINICPM_ASSIGN(Checkpoint checkpoint, Checkpoint::Open(folder));
  if (checkpoint.bundle() != nullptr && checkpoint.bundle()->family != FamilyName(config.family)) {
    return Fail(ErrorCode::kCorrupt, Printable(folder, 400) + ": bundle.json is of family \"" +
                                         Printable(checkpoint.bundle()->family) + "\", but config.json of \"" +
                                         FamilyName(config.family) + "\"");
  }

  auto impl = std::make_unique<Impl>(folder, std::move(config), std::move(tokenizer), *placeholders);
  impl->traits = &TraitsOf(impl->config.family);
  impl->stops = impl->config.eos_ids;
  // <|tts_eos|> ends an answer to a spoken question (o 4.5).
  for (const char* text : {"<|im_end|>", "<|endoftext|>", "<|tts_eos|>"}) {
    const int32_t id = impl->tokenizer.AddedTokenId(text);
    if (id >= 0 && std::find(impl->stops.begin(), impl->stops.end(), id) == impl->stops.end()) {
      impl->stops.push_back(id);
    }
  }
  impl->checkpoint = std::make_shared<const Checkpoint>(std::move(checkpoint));
  MINICPM_ASSIGN(impl->model, NativeModel::Load(impl->config, impl->checkpoint));
  if (options.log != nullptr) {
    if (const auto warning = CheckChatTemplate(impl->traits->template_family, folder)) {
      options.log->Write(LogLevel::kWarning, *warning);
    }
  }
  return std::shared_ptr<const Engine>(new Engine(std::move(impl)));
}

const ModelConfig& Engine::config() const { return impl_->config; }
const char* Engine::family_name() const { return FamilyName(impl_->config.family); }
const Tokenizer& Engine::tokenizer() const { return impl_->tokenizer; }
const std::string& Engine::folder() const { return impl_->folder; }
SamplingOptions Engine::default_sampling() const { return impl_->traits->sampling; }

int64_t Engine::default_context() const {
  return std::min(impl_->config.decoder.max_positions, impl_->traits->max_prompt_tokens + kDefaultNewTokens);
}

bool Engine::hears() const { return impl_->config.audio.has_value(); }

bool Engine::IsStop(int32_t id) const {
  return std::find(impl_->stops.begin(), impl_->stops.end(), id) != impl_->stops.end();
}

ModelSummary Engine::Summary() const {
  ModelSummary summary;
  summary.weight_files = impl_->checkpoint->files();
  summary.weight_bytes = impl_->checkpoint->total_bytes();
  if (impl_->checkpoint->bundle() != nullptr) summary.weights_sha256 = impl_->checkpoint->bundle()->weights.sha256;
  summary.licence = FirstLine(impl_->folder + "/LICENSE");
  std::set<std::string, std::less<>> known;
  const auto count = [&](ModelSummary::Part& part, const TensorView& view) {
    ++part.n_tensors;
    part.n_parameters += view.shape.elements();
    part.n_bytes += quant::BytesOf(view);
    const std::string dtype = NameOf(view.dtype);
    if (std::find(part.dtypes.begin(), part.dtypes.end(), dtype) == part.dtypes.end()) part.dtypes.push_back(dtype);
  };
  for (const PartListing& listing : ListTensors(impl_->config)) {
    ModelSummary::Part& part = summary.parts.emplace_back();
    part.name = listing.part;
    std::map<std::string, int64_t> linear;
    for (const TensorSpec& spec : listing.tensors) {
      known.insert(spec.name);
      const TensorView view = impl_->checkpoint->Find(spec.name);
      count(part, view);
      if (spec.role == TensorRole::kLinear) linear[NameOf(view.dtype)] += view.shape.elements();
      // The head that is tied to the table is listed as the table only.
      if (spec.role == TensorRole::kHead) part.head_dtype = NameOf(view.dtype);
      if (spec.role != TensorRole::kEmbedding) continue;
      part.embedding_bytes += quant::BytesOf(view);
      if (impl_->config.decoder.tied_head && part.name == "language") part.head_dtype = NameOf(view.dtype);
    }
    const auto most = std::max_element(linear.begin(), linear.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != linear.end()) part.matmul_dtype = most->first;
  }
  ModelSummary::Part other;
  other.name = "other";
  other.used = false;
  for (const auto* entry : impl_->checkpoint->entries()) {
    if (!known.contains(entry->name)) count(other, entry->view);
  }
  if (other.n_tensors > 0) summary.parts.push_back(std::move(other));
  return summary;
}

Result<std::string> Engine::WeightsSha256() const {
  if (impl_->checkpoint->bundle() != nullptr) return impl_->checkpoint->bundle()->weights.sha256;
  Sha256 hash;
  for (const std::string& path : impl_->checkpoint->files()) {
    MINICPM_ASSIGN(const MappedFile file, MappedFile::Open(path));
    hash.Update(file.bytes());
  }
  const auto digest = hash.Finish();
  return Hex(digest);
}

Result<Prompt> Engine::BuildPrompt(std::span<const Message> messages, const PromptOptions& options) const {
  return minicpm::BuildPrompt(impl_->config, *impl_->traits, impl_->tokenizer, impl_->placeholders, messages, options);
}

Result<std::unique_ptr<Backend>> Engine::NewBackend(const BackendOptions& options) const {
  const int64_t context = options.context > 0 ? options.context : default_context();
  if (context > impl_->config.decoder.max_positions) {
    return Fail(ErrorCode::kInvalidArgument, "a context of " + std::to_string(context) + " is more than the model's " +
                                                 std::to_string(impl_->config.decoder.max_positions) + " positions");
  }
  if (options.check_memory) {
    const uint64_t weights = impl_->checkpoint->total_bytes();
    const SequenceLayout layout = DecoderSequenceLayout(impl_->config.decoder, options.kv_dtype);
    const uint64_t cache =
        static_cast<uint64_t>((context + kKvBlockTokens - 1) / kKvBlockTokens) * layout.block_bytes() +
        layout.recurrent_bytes(context);
    const uint64_t needed = weights + cache + kWorkingBytes;
    const uint64_t available = AvailableMemoryBytes();
    if (available != 0 && needed > available) {
      return Fail(ErrorCode::kResourceExhausted, "the model needs " + Megabytes(needed) + " (" + Megabytes(weights) +
                                                     " weights, " + Megabytes(cache) + " keys and values for " +
                                                     std::to_string(context) + " positions, 250 MB to work), but " +
                                                     Megabytes(available) + " are available");
    }
  }
  NativeBackendOptions native;
  native.n_threads = options.n_threads;
  native.pin = options.pin;
  native.isa = options.isa;
  native.kv_dtype = options.kv_dtype;
  native.kv_tokens = context;
  return NewNativeBackend(impl_->model, native);
}

}  // namespace minicpm
