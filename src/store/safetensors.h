// SafetensorsFile: one safetensors file as checked views into its mapping. Not for folders with several: see
// checkpoint.h. Format: 8 bytes header length (little-endian), a JSON object name -> {dtype, shape, data_offsets}, then
// the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/mapped_file.h"
#include "tensor/tensor.h"

namespace minicpm {

// Bytes of a tensor; nothing when a dim is negative or the product overflows. Zero dims are left out of the overflow
// check, so that Shape::elements() is safe in any order.
std::optional<int64_t> CheckedBytes(DType dtype, const Shape& shape);

// Every promise of the format is checked when opening, without touching the data: header length within the file and at
// most 100 MB, one JSON object, no name twice, product of dims without overflow, offsets that match shape and dtype,
// data that fills the file without overlap or hole. Of what the format allows, refused as kUnsupported: other dtypes
// than DType's, more dims than Shape::kMaxRank, and a tensor whose address is not a multiple of its element size (files
// from before headers were padded to 8 bytes), because kernels read elements in place.
// Lifetime: views point into the mapping, which lives as long as this object (moving keeps them valid). Threads: const.
class SafetensorsFile {
 public:
  static constexpr size_t kMaxHeaderBytes = 100'000'000;

  struct Entry {
    std::string name;
    TensorView view;  // data is never null, also for a tensor without elements
  };
  // Errors: kNotFound, kIo, kCorrupt, kUnsupported; each sentence names the file and, where there is one, the tensor.
  static Result<SafetensorsFile> Open(const std::string& path);
  // Parses bytes that someone else keeps alive (tests, fuzzing). `name` stands for the file in messages.
  // Requires for success: bytes.data() aligned to 8, as a mapping is.
  static Result<SafetensorsFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their data
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The whole file; the views point into it.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace minicpm
