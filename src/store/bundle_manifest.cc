// Implementation of bundle_manifest.h: reading through JsonObject, writing one entry per line so that people can
// compare two manifests.
#include "store/bundle_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/utf8.h"
#include "quant/packed.h"
#include "store/json.h"
#include "store/safetensors.h"

namespace minicpm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "minicpm-bundle";
constexpr size_t kDigestDigits = 64;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr std::string_view kSealBegin = "\n \"manifest_sha256\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";

std::optional<DType> DTypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kI8, DType::kU8,
                            DType::kInt8Packed, DType::kInt4Packed}) {
    if (name == NameOf(dtype)) return dtype;
  }
  return std::nullopt;
}

bool IsDigest(std::string_view text) {
  return text.size() == kDigestDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<std::string> ReadDigest(const JsonObject& json, const char* key) {
  MINICPM_ASSIGN(std::string digest, json.String(key));
  if (!IsDigest(digest)) return json.Complain(key, "64 lower-case hexadecimal digits");
  return digest;
}

Result<BundleFile> ReadFileEntry(const JsonObject& json) {
  BundleFile file;
  MINICPM_ASSIGN(file.name, json.String("name"));
  if (!IsInnerPath(file.name)) return json.Complain("name", "a path inside the bundle");
  MINICPM_ASSIGN(const int64_t bytes, json.Int("bytes", 0, kMostBytes));
  file.bytes = static_cast<uint64_t>(bytes);
  MINICPM_ASSIGN(file.sha256, ReadDigest(json, "sha256"));
  return file;
}

Result<std::vector<BundleFile>> ReadFileList(const JsonObject& json, const char* key) {
  std::vector<BundleFile> files;
  MINICPM_ASSIGN(const std::vector<JsonObject> list, json.ObjectList(key));
  std::set<std::string_view> names;
  files.reserve(list.size());
  for (const JsonObject& entry : list) {
    MINICPM_ASSIGN(BundleFile file, ReadFileEntry(entry));
    files.push_back(std::move(file));
    if (!names.insert(files.back().name).second) return entry.Complain("name", "a name that is listed once");
  }
  return files;
}

Result<DType> ReadDType(const JsonObject& json) {
  MINICPM_ASSIGN(const std::string text, json.String("dtype"));
  const auto dtype = DTypeNamed(text);
  if (!dtype.has_value()) return json.Complain("dtype", "one of F32, F16, BF16, I64, I32, I8, U8, INT8, INT4");
  return *dtype;
}

Result<Shape> ReadShape(const JsonObject& json) {
  MINICPM_ASSIGN(const std::vector<int64_t> dims, json.IntListOr("shape", {}, 0, kMostBytes));
  if (dims.size() > Shape::kMaxRank) {
    return json.Complain("shape", "at most " + std::to_string(Shape::kMaxRank) + " dimensions");
  }
  return Shape(std::span<const int64_t>(dims));
}

// What a tensor of this dtype and shape takes; nothing when that is no sensible number.
std::optional<int64_t> StoredBytes(DType dtype, const Shape& shape) {
  if (!IsPacked(dtype)) return CheckedBytes(dtype, shape);
  return shape.rank() == 2 ? quant::CheckedPackedBytes(dtype, shape[0], shape[1]) : std::nullopt;
}

Result<BundleTensor> ReadTensor(const JsonObject& json) {
  BundleTensor tensor;
  MINICPM_ASSIGN(tensor.name, json.String("name"));
  if (tensor.name.empty() || tensor.name.starts_with(kPadPrefix)) return json.Complain("name", "a tensor's name");
  MINICPM_ASSIGN(tensor.dtype, ReadDType(json));
  MINICPM_ASSIGN(tensor.shape, ReadShape(json));
  MINICPM_ASSIGN(tensor.group, json.String("group"));
  MINICPM_ASSIGN(const int64_t bytes, json.Int("stored_bytes", 0, kMostBytes));
  tensor.stored_bytes = static_cast<uint64_t>(bytes);
  if (StoredBytes(tensor.dtype, tensor.shape) != bytes) {
    const auto expected = StoredBytes(tensor.dtype, tensor.shape);
    return json.Complain("stored_bytes", (expected.has_value() ? std::to_string(*expected) : "a size that exists") +
                                             " for " + NameOf(tensor.dtype) + " " + tensor.shape.ToString() +
                                             " of tensor \"" + Printable(tensor.name) + "\"");
  }
  if (IsPacked(tensor.dtype)) {
    MINICPM_ASSIGN(const int64_t layout, json.Int("layout_version", 1, 1 << 30));
    if (layout != quant::kLayoutVersion) {
      return Fail(ErrorCode::kUnsupported, json.name() + ": tensor \"" + Printable(tensor.name) +
                                               "\" has layout_version " + std::to_string(layout) +
                                               ", this program reads " + std::to_string(quant::kLayoutVersion));
    }
  }
  MINICPM_ASSIGN(tensor.sha256, ReadDigest(json, "sha256"));
  return tensor;
}

Result<BundleGroup> ReadGroup(const JsonObject& json) {
  BundleGroup group;
  MINICPM_ASSIGN(group.name, json.String("name"));
  MINICPM_ASSIGN(group.format, json.String("format"));
  MINICPM_ASSIGN(group.n_tensors, json.Int("tensors", 0, kMostBytes));
  MINICPM_ASSIGN(group.n_parameters, json.Int("parameters", 0, kMostBytes));
  MINICPM_ASSIGN(const int64_t bytes, json.Int("bytes", 0, kMostBytes));
  group.n_bytes = static_cast<uint64_t>(bytes);
  if (json.Has("relative_rms")) {
    MINICPM_ASSIGN(group.relative_rms, json.Number("relative_rms", 0));
  }
  return group;
}

Status ReadTensors(const JsonObject& json, BundleManifest& m) {
  MINICPM_ASSIGN(const std::vector<JsonObject> tensors, json.ObjectList("tensors"));
  std::set<std::string_view> names;
  m.tensors.reserve(tensors.size());
  for (const JsonObject& entry : tensors) {
    MINICPM_ASSIGN(BundleTensor tensor, ReadTensor(entry));
    m.tensors.push_back(std::move(tensor));
    if (!names.insert(m.tensors.back().name).second) return entry.Complain("name", "a name that is listed once");
  }
  MINICPM_ASSIGN(const std::vector<JsonObject> dropped, json.ObjectList("dropped"));
  for (const JsonObject& entry : dropped) {
    DroppedTensor tensor;
    MINICPM_ASSIGN(tensor.name, entry.String("name"));
    MINICPM_ASSIGN(tensor.dtype, ReadDType(entry));
    MINICPM_ASSIGN(tensor.shape, ReadShape(entry));
    m.dropped.push_back(std::move(tensor));
  }
  return {};
}

Status CheckFormat(const JsonObject& json) {
  MINICPM_ASSIGN(const std::string format, json.String("format"));
  if (format != kFormat) return json.Complain("format", std::string("\"") + kFormat + "\"");
  MINICPM_ASSIGN(const int64_t version, json.Int("format_version", 1, 1 << 30));
  if (version != kBundleFormatVersion) {
    return Fail(ErrorCode::kUnsupported, json.name() + ": has bundle format version " + std::to_string(version) +
                                             ", this program reads version " + std::to_string(kBundleFormatVersion) +
                                             " (use a newer minicpm)");
  }
  return {};
}

Json ShapeJson(const Shape& shape) {
  Json dims = Json::array();
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

Json FileJson(const BundleFile& file) { return {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}}; }

Json GroupJson(const BundleGroup& group) {
  Json json = {{"name", group.name},
               {"format", group.format},
               {"tensors", group.n_tensors},
               {"parameters", group.n_parameters},
               {"bytes", group.n_bytes}};
  if (group.relative_rms.has_value()) json["relative_rms"] = *group.relative_rms;
  return json;
}

Json TensorJson(const BundleTensor& tensor) {
  Json json = {{"name", tensor.name}, {"dtype", NameOf(tensor.dtype)}, {"shape", ShapeJson(tensor.shape)}};
  if (IsPacked(tensor.dtype)) json["layout_version"] = quant::kLayoutVersion;
  json["group"] = tensor.group;
  json["stored_bytes"] = tensor.stored_bytes;
  json["sha256"] = tensor.sha256;
  return json;
}

Json DroppedJson(const DroppedTensor& tensor) {
  return {{"name", tensor.name}, {"dtype", NameOf(tensor.dtype)}, {"shape", ShapeJson(tensor.shape)}};
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Appends `,\n "key": ` unless it is the first key.
void Key(std::string& out, const char* key) {
  out += out.empty() ? "{\n \"" : ",\n \"";
  out += key;
  out += "\": ";
}

template <class List, class ToJson>
void Rows(std::string& out, const char* key, const List& list, ToJson to_json) {
  Key(out, key);
  out += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    out += i == 0 ? "\n  " : ",\n  ";
    out += Dump(to_json(list[i]));
  }
  out += list.empty() ? "]" : "\n ]";
}

void Value(std::string& out, const char* key, const Json& value) {
  Key(out, key);
  out += Dump(value);
}

}  // namespace

bool IsInnerPath(std::string_view name) {
  if (name.empty() || name.size() > 4096 || !IsValidUtf8(name)) return false;
  if (std::ranges::any_of(name,
                          [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; })) {
    return false;
  }
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

const BundleTensor* BundleManifest::Find(std::string_view name) const {
  const auto it = std::ranges::find(tensors, name, &BundleTensor::name);
  return it == tensors.end() ? nullptr : &*it;
}

Result<BundleManifest> ParseBundleManifest(std::string_view text, const std::string& name) {
  MINICPM_ASSIGN(const JsonObject json, JsonObject::Parse(text, name));
  MINICPM_TRY(CheckFormat(json));
  BundleManifest m;
  MINICPM_ASSIGN(m.family, json.String("family"));
  MINICPM_ASSIGN(m.tool, json.String("tool"));
  MINICPM_ASSIGN(m.created_utc, json.String("created_utc"));
  MINICPM_ASSIGN(m.synthetic, json.BoolOr("synthetic", false));
  MINICPM_ASSIGN(m.source, json.StringOr("source", ""));
  MINICPM_ASSIGN(m.sources, ReadFileList(json, "sources"));
  MINICPM_ASSIGN(const JsonObject recipe, json.Object("recipe"));
  for (const std::string& key : recipe.Keys()) {
    MINICPM_ASSIGN(m.recipe[key], recipe.String(key));
  }
  MINICPM_ASSIGN(const std::vector<JsonObject> groups, json.ObjectList("groups"));
  for (const JsonObject& entry : groups) {
    MINICPM_ASSIGN(BundleGroup group, ReadGroup(entry));
    m.groups.push_back(std::move(group));
  }
  MINICPM_ASSIGN(const JsonObject weights, json.Object("weights"));
  MINICPM_ASSIGN(m.weights, ReadFileEntry(weights));
  if (m.weights.name != kBundleWeightsName) {
    return weights.Complain("name", std::string("\"") + kBundleWeightsName + "\"");
  }
  MINICPM_ASSIGN(m.header_sha256, ReadDigest(weights, "header_sha256"));
  MINICPM_ASSIGN(m.files, ReadFileList(json, "files"));
  MINICPM_TRY(ReadTensors(json, m));
  MINICPM_TRY(ReadDigest(json, "manifest_sha256"));
  return m;
}

std::string WriteBundleManifest(const BundleManifest& m) {
  std::string out;
  Value(out, "format", kFormat);
  Value(out, "format_version", kBundleFormatVersion);
  Value(out, "family", m.family);
  Value(out, "tool", m.tool);
  Value(out, "created_utc", m.created_utc);
  Value(out, "synthetic", m.synthetic);
  Value(out, "source", m.source);
  Rows(out, "sources", m.sources, FileJson);
  Json recipe = Json::object();
  for (const auto& [key, value] : m.recipe) recipe[key] = value;
  Value(out, "recipe", recipe);
  Rows(out, "groups", m.groups, GroupJson);
  Json weights = FileJson(m.weights);
  weights["header_sha256"] = m.header_sha256;
  Value(out, "weights", weights);
  Rows(out, "files", m.files, FileJson);
  Rows(out, "tensors", m.tensors, TensorJson);
  Rows(out, "dropped", m.dropped, DroppedJson);
  out += ',';
  out += kSealBegin;
  out.append(kDigestDigits, '0');
  out += kSealEnd;
  return out;
}

std::optional<size_t> SealPosition(std::string_view text) {
  const size_t tail = kSealBegin.size() + kDigestDigits + kSealEnd.size();
  if (text.size() < tail || !text.ends_with(kSealEnd)) return std::nullopt;
  const size_t begin = text.size() - tail;
  if (text.substr(begin, kSealBegin.size()) != kSealBegin) return std::nullopt;
  return begin + kSealBegin.size();
}

}  // namespace minicpm
