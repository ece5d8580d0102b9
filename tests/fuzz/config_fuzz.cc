// Fuzzes the configuration readers: JsonObject with every getter, and the models' config from up to three texts.
// Input: config.json, preprocessor_config.json and generation_config.json, separated by lines of three dashes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/blocks/model_config.h"
#include "store/json.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

template <class T>
void CheckError(const minicpm::Result<T>& result) {
  if (result.has_value()) return;
  Require(!result.error().message.empty());
  Require(minicpm::Printable(result.error().message, 1 << 20) == result.error().message);
}

void AskForEverything(const minicpm::JsonObject& object, int depth) {
  for (const std::string& key : object.Keys()) {
    CheckError(object.Int(key, 1, 65536));
    CheckError(object.Number(key, -1e3, 1e3));
    CheckError(object.Bool(key));
    CheckError(object.String(key));
    CheckError(object.IntListOr(key, {}, -1, 200000));
    CheckError(object.NumberListOr(key, {}));
    CheckError(object.StringListOr(key, {}));
    const auto list = object.ObjectList(key);
    CheckError(list);
    if (list.has_value()) {
      for (const auto& element : *list) AskForEverything(element, depth + 1);
    }
    const auto inner = object.ObjectOrNull(key);
    CheckError(inner);
    if (inner.has_value() && inner->has_value()) AskForEverything(**inner, depth + 1);
  }
  Require(depth <= minicpm::JsonObject::kMaxDepth);
}

// What the towers build on without asking again.
void CheckPromises(const minicpm::ModelConfig& c) {
  const auto& v = c.vision;
  Require(v.n_heads > 0 && v.n_embed > 0 && v.n_embed % v.n_heads == 0 && v.n_kept_layers() >= 0);
  Require(v.patch_px > 0 && v.n_side() > 0 && v.n_ffn > 0 && v.n_channels > 0);
  const auto& d = c.decoder;
  Require(d.n_embed > 0 && d.n_ffn > 0 && d.n_layers > 0 && d.head_dim > 0 && d.n_vocab > 0 && d.max_positions > 0);
  Require(d.n_kv_heads > 0 && d.n_heads > 0 && d.n_heads % d.n_kv_heads == 0 && d.head_dim % 2 == 0);
  Require(c.resampler.n_queries > 0 && c.resampler.n_heads() > 0);
  Require(c.resampler.n_embed == d.n_embed && c.resampler.n_input == v.n_embed);
  Require(c.max_slices > 0 && c.scale_resolution > 0);
  for (const int32_t id : c.eos_ids) Require(id >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(input), size);
  std::string texts[3];
  for (std::string& text : texts) {
    constexpr std::string_view kSeparator = "\n---\n";
    const size_t end = rest.find(kSeparator);
    text = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + kSeparator.size());
  }
  const auto object = minicpm::JsonObject::Parse(texts[0], "fuzz");
  CheckError(object);
  if (object.has_value()) AskForEverything(*object, 0);
  const auto config = minicpm::ParseModelConfig(texts[0], texts[1], texts[2]);
  CheckError(config);
  if (config.has_value()) CheckPromises(*config);
  return 0;
}
