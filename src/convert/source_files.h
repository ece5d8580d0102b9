// The files of a checkpoint folder: which hold weights, which are copied, and by what a changed one is noticed. Not for
// what they say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/checkpoint.h"

namespace minicpm {

struct SourceListing {
  std::vector<BundleFile> weights;  // as in Checkpoint::files(), hashes empty
  std::vector<std::string> others;  // to copy, sorted; with '/' for files in folders
  uint64_t other_bytes = 0;
  std::string identity;  // changes when a weight file is exchanged: names, sizes, times, hash of each header
};

// Files whose name says that they hold weights of some program (.safetensors, .bin, .pt, .onnx, .gguf, ...), the index
// of shards and hidden files are not copied. Errors: kInvalidArgument when a file has a name that bundles use
// themselves.
Result<SourceListing> ListSource(const Checkpoint& checkpoint);

// Copies one of the others unchanged, with the folders on its way.
Status CopyFile(const std::string& from_folder, const std::string& to_folder, const std::string& name);

// Errors when `bundle` lies in `checkpoint`: it would be copied into itself.
Status CheckFoldersApart(const std::string& checkpoint, const std::string& bundle);

// The last part of the folder's path.
std::string SourceName(const std::string& checkpoint);

}  // namespace minicpm
