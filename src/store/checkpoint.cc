// Checkpoint: finds the weight files of a folder, opens them all, and answers requests for exact tensors.
#include "store/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "quant/packed.h"
#include "store/json.h"

namespace minicpm {
namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

// True also for links that lead nowhere, so that opening them explains what is wrong.
bool NameExists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

Status CheckFolder(const std::string& folder) {
  if (folder.empty()) return Fail(ErrorCode::kInvalidArgument, "the name of the checkpoint folder is empty");
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  const std::string name = Printable(folder, 4096);
  if (status.type() == std::filesystem::file_type::not_found) {
    return Fail(ErrorCode::kNotFound, name + ": no such folder");
  }
  if (error) return Fail(ErrorCode::kIo, name + ": cannot open: " + error.message());
  if (!std::filesystem::is_directory(status)) {
    return Fail(ErrorCode::kInvalidArgument, name + ": is a file, expected a checkpoint folder");
  }
  return {};
}

std::string Join(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

// A plain name: nothing that could lead out of the folder. Links are followed, as caches of published models consist of
// them.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// "F32", "F32 or BF16", "F32, F16 or BF16"
std::string NamesOf(std::initializer_list<DType> dtypes) {
  std::string out;
  for (const DType* dtype = dtypes.begin(); dtype != dtypes.end(); ++dtype) {
    if (dtype != dtypes.begin()) out += dtype + 1 == dtypes.end() ? " or " : ", ";
    out += NameOf(*dtype);
  }
  return out;
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const std::string& folder) {
  MINICPM_TRY(CheckFolder(folder));
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  if (const std::string manifest = Join(folder, kBundleFileName); NameExists(manifest)) {
    MINICPM_TRY(checkpoint.OpenBundle(manifest));
  } else if (NameExists(Join(folder, kSingleName))) {
    MINICPM_TRY(checkpoint.OpenSingle());
  } else if (const std::string index = Join(folder, kIndexName); NameExists(index)) {
    MINICPM_TRY(checkpoint.OpenSharded(index));
  } else {
    return Fail(ErrorCode::kNotFound, Printable(folder, 4096) + ": holds neither " + kSingleName + " nor " +
                                          kIndexName + " (only safetensors weights are read)");
  }
  return checkpoint;
}

Status Checkpoint::AddShard(const std::string& path) {
  MINICPM_ASSIGN(SafetensorsFile shard, SafetensorsFile::Open(path));
  shards_.push_back(std::move(shard));
  files_.push_back(path);
  return {};
}

Status Checkpoint::OpenSingle() {
  MINICPM_TRY(AddShard(Join(folder_, kSingleName)));
  for (const auto& entry : shards_[0].entries()) by_name_.emplace(entry.name, Located{&entry, 0});
  return {};
}

Status Checkpoint::OpenSharded(const std::string& index_path) {
  MINICPM_ASSIGN(const JsonObject index, JsonObject::ReadFile(index_path));
  MINICPM_ASSIGN(const JsonObject weight_map, index.Object("weight_map"));
  std::map<std::string, std::vector<std::string>> tensors_of;  // shard file -> tensors it must hold
  for (std::string& tensor : weight_map.Keys()) {
    MINICPM_ASSIGN(const std::string shard, weight_map.String(tensor));
    if (!IsPlainName(shard)) return weight_map.Complain(tensor, "the plain name of a file in the same folder");
    tensors_of[shard].push_back(std::move(tensor));
  }
  if (tensors_of.empty()) return index.Complain("weight_map", "an object that names at least one tensor");

  std::vector<std::string> missing;
  for (const auto& [shard, tensors] : tensors_of) {
    if (!NameExists(Join(folder_, shard))) missing.push_back(shard);
  }
  if (!missing.empty()) {
    return Fail(ErrorCode::kNotFound, Printable(folder_, 4096) + ": " + std::to_string(missing.size()) + " of " +
                                          std::to_string(tensors_of.size()) + " weight files named by " + kIndexName +
                                          " are missing, the first is " + Printable(missing.front()));
  }
  for (const auto& [shard, tensors] : tensors_of) {
    MINICPM_TRY(AddShard(Join(folder_, shard)));
    std::map<std::string_view, const SafetensorsFile::Entry*> held;
    for (const auto& entry : shards_.back().entries()) held.emplace(entry.name, &entry);
    for (const std::string& tensor : tensors) {
      const auto it = held.find(tensor);
      if (it == held.end()) {
        return Fail(ErrorCode::kCorrupt, Printable(files_.back(), 4096) + ": lacks tensor \"" + Printable(tensor) +
                                             "\", which " + kIndexName + " says is in it");
      }
      by_name_.emplace(tensor, Located{it->second, shards_.size() - 1});
    }
  }
  return {};
}

Status Checkpoint::OpenBundle(const std::string& manifest_path) {
  MINICPM_ASSIGN(const std::string text, ReadWholeFile(manifest_path, JsonObject::kMaxBytes));
  MINICPM_ASSIGN(BundleManifest manifest, ParseBundleManifest(text, manifest_path));
  bundle_ = std::make_shared<const BundleManifest>(std::move(manifest));
  MINICPM_TRY(AddShard(Join(folder_, kBundleWeightsName)));
  const std::string file = Printable(files_[0], 4096);
  if (shards_[0].bytes().size() != bundle_->weights.bytes) {
    return Fail(ErrorCode::kCorrupt, file + ": has " + std::to_string(shards_[0].bytes().size()) + " bytes, but " +
                                         kBundleFileName + " says " + std::to_string(bundle_->weights.bytes));
  }
  std::map<std::string_view, const BundleTensor*> listed;
  for (const BundleTensor& tensor : bundle_->tensors) listed.emplace(tensor.name, &tensor);
  logical_.reserve(listed.size());  // by_name_ points into it
  for (const auto& entry : shards_[0].entries()) {
    if (entry.name.starts_with(kPadPrefix)) continue;
    const auto it = listed.find(entry.name);
    if (it == listed.end()) {
      return Fail(ErrorCode::kCorrupt, file + ": holds tensor \"" + Printable(entry.name) + "\", which " +
                                           kBundleFileName + " does not list");
    }
    MINICPM_TRY(AddBundleTensor(*it->second, entry));
    listed.erase(it);
  }
  if (!listed.empty()) {
    return Fail(ErrorCode::kCorrupt, file + ": lacks tensor \"" + Printable(listed.begin()->first) + "\", which " +
                                         kBundleFileName + " lists");
  }
  return {};
}

Status Checkpoint::AddBundleTensor(const BundleTensor& tensor, const SafetensorsFile::Entry& stored) {
  constexpr uintptr_t kPackedAlignment = 64;
  const TensorView& view = stored.view;
  const bool packed = IsPacked(tensor.dtype);
  const DType dtype = packed ? DType::kU8 : tensor.dtype;
  const Shape shape = packed ? Shape{static_cast<int64_t>(tensor.stored_bytes)} : tensor.shape;
  const auto complain = [&](const std::string& what) {
    return Fail(ErrorCode::kCorrupt,
                Printable(files_[0], 4096) + ": tensor \"" + Printable(tensor.name) + "\" " + what);
  };
  if (view.dtype != dtype || view.shape != shape) {
    return complain(std::string("is ") + NameOf(view.dtype) + " " + view.shape.ToString() + ", but " + kBundleFileName +
                    " says " + NameOf(tensor.dtype) + " " + tensor.shape.ToString() + ", stored as " + NameOf(dtype) +
                    " " + shape.ToString());
  }
  if (packed && reinterpret_cast<uintptr_t>(view.data) % kPackedAlignment != 0) {
    return complain("does not begin at a multiple of 64 bytes, as packed tensors must");
  }
  logical_.push_back({tensor.name, {view.data, tensor.dtype, tensor.shape}});
  by_name_.emplace(logical_.back().name, Located{&logical_.back(), 0});
  return {};
}

Checkpoint::Place Checkpoint::PlaceOf(std::string_view name) const {
  const auto it = by_name_.find(name);
  MINICPM_CHECK(it != by_name_.end());
  const Located& located = it->second;
  const auto* data = static_cast<const std::byte*>(located.entry->view.data);
  return {located.shard, static_cast<uint64_t>(data - shards_[located.shard].bytes().data()),
          quant::BytesOf(located.entry->view)};
}

Result<TensorView> Checkpoint::Get(std::string_view name, const Shape& shape,
                                   std::initializer_list<DType> dtypes) const {
  const std::string expected = NamesOf(dtypes) + " " + shape.ToString();
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) {
    return Fail(ErrorCode::kNotFound,
                Printable(folder_, 4096) + ": tensor \"" + Printable(name) + "\" is missing, expected " + expected);
  }
  const TensorView& view = it->second.entry->view;
  if (view.shape != shape || std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
    return Fail(ErrorCode::kCorrupt, Printable(files_[it->second.shard], 4096) + ": tensor \"" + Printable(name) +
                                         "\" is " + NameOf(view.dtype) + " " + view.shape.ToString() + ", expected " +
                                         expected);
  }
  return view;
}

TensorView Checkpoint::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? TensorView{} : it->second.entry->view;
}

std::vector<const SafetensorsFile::Entry*> Checkpoint::entries() const {
  std::vector<const SafetensorsFile::Entry*> out;
  out.reserve(by_name_.size());
  for (const auto& [name, located] : by_name_) out.push_back(located.entry);
  return out;
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [name, located] : by_name_) total += quant::BytesOf(located.entry->view);
  return total;
}

}  // namespace minicpm
