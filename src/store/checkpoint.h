// Checkpoint: a folder of official weights (one safetensors file, or shards with an index) as named, checked, mapped tensors.
// Not for bundles' packed tensors or for deciding which tensors a model needs: models/ lists those.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/mapped_file.h"
#include "tensor/tensor.h"

namespace minicpm {

// One safetensors file. Every promise of the format is checked when opening: header length within the file and at most
// 100 MB, JSON object, known dtypes, product of dims without overflow, offsets inside the file, data without overlap or hole.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    TensorView view;
  };
  // Errors: kNotFound, kIo, kCorrupt, kUnsupported; each sentence names the file and, where there is one, the tensor.
  static Result<SafetensorsFile> Open(const std::string& path);
  // Parses bytes that someone else keeps alive (tests, fuzzing). `name` stands for the file in messages.
  static Result<SafetensorsFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  const std::vector<Entry>& entries() const { return entries_; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Lifetime: views point into the mappings, which live as long as this object. Threads: const after Open.
class Checkpoint {
 public:
  // Opens model.safetensors.index.json with all its shards, or model.safetensors. Errors also when a shard is missing or
  // truncated, is a git-lfs pointer instead of weights, or lacks a tensor that the index promises.
  static Result<Checkpoint> Open(const std::string& folder);

  // The tensor, exactly as expected. `context` says who needs it (for the message). Errors name tensor, expected and found.
  Result<TensorView> Get(std::string_view name, const Shape& shape, std::initializer_list<DType> dtypes) const;
  // Null-data view when absent.
  TensorView Find(std::string_view name) const;

  const std::string& folder() const { return folder_; }
  std::vector<const SafetensorsFile::Entry*> entries() const;  // sorted by name
  uint64_t total_bytes() const;
  // Paths of the weight files, in order.
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::string folder_;
  std::vector<std::string> files_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, const SafetensorsFile::Entry*, std::less<>> by_name_;
};

}  // namespace minicpm
