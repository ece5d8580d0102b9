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

// One getter per key, chosen by the key's place and `turn`: all of them on every key would spend the time on error
// texts.
void Ask(const minicpm::JsonObject& object, size_t turn, int depth) {
  Require(depth <= minicpm::JsonObject::kMaxDepth);
  for (const std::string& key : object.Keys()) {
    switch (turn++ % 8) {
      case 0:
        CheckError(object.Int(key, 1, 65536));
        break;
      case 1:
        CheckError(object.Number(key, -1e3, 1e3));
        break;
      case 2:
        CheckError(object.Bool(key));
        break;
      case 3:
        CheckError(object.String(key));
        break;
      case 4:
        CheckError(object.IntListOr(key, {}, -1, 200000));
        break;
      case 5:
        CheckError(object.NumberListOr(key, {}));
        break;
      case 6:
        CheckError(object.StringListOr(key, {}));
        break;
      default:
        CheckError(object.Object(key));
        break;
    }
    if (const auto list = object.ObjectList(key); list.has_value()) {
      for (const auto& element : *list) Ask(element, turn, depth + 1);
    }
    if (const auto inner = object.Object(key); inner.has_value()) Ask(*inner, turn, depth + 1);
  }
}

// What the towers build on without asking again.
void CheckPromises(const minicpm::ModelConfig& c) {
  const auto& v = c.vision;
  Require(v.n_heads > 0 && v.n_embed > 0 && v.n_embed % v.n_heads == 0 && v.n_kept_layers() >= 0);
  Require(v.patch_px > 0 && v.n_side() > 0 && v.n_ffn > 0 && v.n_channels > 0);
  const auto& d = c.decoder;
  Require(d.n_embed > 0 && d.n_ffn > 0 && d.n_layers > 0 && d.head_dim > 0 && d.n_vocab > 0 && d.max_positions > 0);
  Require(d.n_kv_heads > 0 && d.n_heads > 0 && d.n_heads % d.n_kv_heads == 0 && d.head_dim % 2 == 0);
  if (!c.merger.has_value()) Require(c.resampler.n_queries > 0 && c.resampler.n_heads() > 0);
  const int64_t n_embed = c.merger.has_value() ? c.merger->n_embed : c.resampler.n_embed;
  const int64_t n_input = c.merger.has_value() ? c.merger->n_input : c.resampler.n_input;
  Require(n_embed == d.n_embed && n_input == v.n_embed);
  Require(!d.is_hybrid() || static_cast<int64_t>(d.delta_layers.size()) == d.n_layers);
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
  if (object.has_value()) Ask(*object, size, 0);
  const auto config = minicpm::ParseModelConfig(texts[0], texts[1], texts[2]);
  CheckError(config);
  if (config.has_value()) CheckPromises(*config);
  return 0;
}
