// Checkpoint: the weights of a model folder as named, checked, mapped tensors: an official one (one safetensors file,
// or shards with an index) or a bundle. Not for deciding which tensors a model needs: models/ lists those.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/bundle_manifest.h"
#include "store/safetensors.h"
#include "tensor/tensor.h"

namespace minicpm {

// Lifetime: views point into the mappings, which live as long as this object. Threads: const after Open.
class Checkpoint {
 public:
  // Opens model.safetensors, or model.safetensors.index.json with all its shards (in this order, as transformers does).
  // Shards are plain file names in the same folder. Errors also when a shard is missing or truncated, is a git-lfs
  // pointer instead of weights, or lacks a tensor that the index promises; tensors outside the index are left out.
  // A folder with bundle.json is a bundle: its weights file and its manifest must name the same tensors; packed ones
  // then have their own dtype and shape, and the tensors that fill gaps are hidden. Hashes are not looked at.
  static Result<Checkpoint> Open(const std::string& folder);

  // The tensor, exactly as expected. Errors name the file (the folder when the tensor is missing: kNotFound), the
  // tensor, what was expected and what was found.
  Result<TensorView> Get(std::string_view name, const Shape& shape, std::initializer_list<DType> dtypes) const;
  // Null-data view when absent.
  TensorView Find(std::string_view name) const;

  const std::string& folder() const { return folder_; }
  std::vector<const SafetensorsFile::Entry*> entries() const;  // sorted by name
  uint64_t total_bytes() const;
  // Paths of the weight files, in order.
  const std::vector<std::string>& files() const { return files_; }
  // The manifest when the folder is a bundle, else null.
  const BundleManifest* bundle() const { return bundle_.get(); }

  // Where a tensor's bytes lie, for reading them without the mapping.
  struct Place {
    size_t file = 0;  // in files()
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // Requires: a name of entries().
  Place PlaceOf(std::string_view name) const;

 private:
  struct Located {
    const SafetensorsFile::Entry* entry;
    size_t shard;  // in files_ and shards_
  };
  Status OpenSingle();
  Status OpenSharded(const std::string& index_path);
  Status OpenBundle(const std::string& manifest_path);
  Status AddBundleTensor(const BundleTensor& tensor, const SafetensorsFile::Entry& stored);
  Status AddShard(const std::string& path);

  std::string folder_;
  std::vector<std::string> files_;
  std::vector<SafetensorsFile> shards_;
  std::shared_ptr<const BundleManifest> bundle_;
  std::vector<SafetensorsFile::Entry> logical_;  // of a bundle: what its stored tensors are
  std::map<std::string, Located, std::less<>> by_name_;
};

}  // namespace minicpm
