// BundleManifest: bundle.json, the list of everything in a bundle and where it came from, as plain data; read with
// every value checked, written the same way every time. Not for hashing (src/convert) or for mapping weights
// (checkpoint.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace minicpm {

inline constexpr const char* kBundleFileName = "bundle.json";
inline constexpr const char* kBundleWeightsName = "weights.safetensors";
inline constexpr const char* kSelfTestFileName = "selftest.json";
inline constexpr const char* kAccuracyFileName = "accuracy.json";  // written later; not listed in the manifest
inline constexpr int64_t kBundleFormatVersion = 1;
inline constexpr const char* kPadPrefix = "__pad.";  // names of the tensors that fill gaps in the weights file

struct BundleFile {
  std::string name;  // relative to its folder, with '/'
  uint64_t bytes = 0;
  std::string sha256;  // lower-case hex
};

struct BundleTensor {
  std::string name;
  DType dtype = DType::kF32;  // what it is; packed ones are stored as U8 [stored_bytes]
  Shape shape;
  std::string group;  // into groups
  uint64_t stored_bytes = 0;
  std::string sha256;  // of the stored bytes
};

// Tensors that were treated alike.
struct BundleGroup {
  std::string name;    // "language.linear"
  std::string format;  // "INT4", or "source": each as it was
  int64_t n_tensors = 0;
  int64_t n_parameters = 0;
  uint64_t n_bytes = 0;
  std::optional<double> relative_rms;  // sqrt(sum (w - decoded)^2 / sum w^2); only where something was quantised
};

struct DroppedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

struct BundleManifest {
  std::string family;
  std::string tool;                           // "minicpm 0.1.0"
  std::string created_utc;                    // "2026-11-30T23:00:00Z"
  bool synthetic = false;                     // random weights, for measuring
  std::string source;                         // name of the source folder or of the synthetic model
  std::vector<BundleFile> sources;            // files read to make this, weights and others
  std::map<std::string, std::string> recipe;  // options after defaults: "weights" -> "int4"
  std::vector<BundleGroup> groups;
  BundleFile weights;
  std::string header_sha256;          // of the weights file up to its first data byte
  std::vector<BundleFile> files;      // every other file of the bundle
  std::vector<BundleTensor> tensors;  // in the order of their data
  std::vector<DroppedTensor> dropped;

  const BundleTensor* Find(std::string_view name) const;  // null when absent
};

// Reads the text of a bundle.json. `name` stands for the file in messages. Errors: kUnsupported for a newer format
// version or another layout of packed tensors, kCorrupt otherwise; each sentence names the file and the key.
Result<BundleManifest> ParseBundleManifest(std::string_view text, const std::string& name);

// The text, ending in a newline; its last key is "manifest_sha256", here 64 zeros. Whoever can hash puts the SHA-256 of
// the whole text, with the zeros in place, at SealPosition().
std::string WriteBundleManifest(const BundleManifest& manifest);
// Where the 64 digits stand in a written manifest; nothing when it does not end as a written one does.
std::optional<size_t> SealPosition(std::string_view text);

// Whether a name from outside stays inside its folder: relative, no "..", no empty part, no control characters.
bool IsInnerPath(std::string_view name);

}  // namespace minicpm
