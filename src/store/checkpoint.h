// Checkpoint: a folder of official weights (one safetensors file, or shards with an index) as named, checked, mapped
// tensors. Not for bundles' packed tensors or for deciding which tensors a model needs: models/ lists those.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/safetensors.h"
#include "tensor/tensor.h"

namespace minicpm {

// Lifetime: views point into the mappings, which live as long as this object. Threads: const after Open.
class Checkpoint {
 public:
  // Opens model.safetensors, or model.safetensors.index.json with all its shards (in this order, as transformers does).
  // Shards are plain file names in the same folder. Errors also when a shard is missing or truncated, is a git-lfs
  // pointer instead of weights, or lacks a tensor that the index promises; tensors outside the index are left out.
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

 private:
  struct Located {
    const SafetensorsFile::Entry* entry;
    size_t shard;  // in files_ and shards_
  };
  Status OpenSingle();
  Status OpenSharded(const std::string& index_path);
  Status AddShard(const std::string& path);

  std::string folder_;
  std::vector<std::string> files_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, Located, std::less<>> by_name_;
};

}  // namespace minicpm
