// SafetensorsWriter: writes named tensors to a new safetensors file, piece by piece. Not for changing an existing file.
// The header is padded so that the data begins at a multiple of 8 bytes; the file appears under its name when complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/atomic_file.h"
#include "store/safetensors.h"
#include "tensor/tensor.h"

namespace minicpm {

struct OutputTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

// Move-only. Without Finish() nothing is left on disk.
class SafetensorsWriter {
 public:
  // Writes the header; the data follows in the order of `tensors`. Errors: kInvalidArgument when a name is empty,
  // taken, reserved or not UTF-8, a size overflows, or the order would leave a tensor at an address that is not a
  // multiple of its element size (put wider elements first); those of AtomicFile.
  static Result<SafetensorsWriter> Create(const std::string& path, std::span<const OutputTensor> tensors,
                                          const std::map<std::string, std::string>& metadata = {});
  // The next bytes of the data, in pieces of any size. Errors: kInvalidArgument when they are more than was announced.
  Status Append(std::span<const std::byte> bytes);
  // Errors: kInvalidArgument when data is missing.
  Status Finish();

 private:
  SafetensorsWriter(std::string path, AtomicFile file, uint64_t data_bytes);

  std::string path_;
  AtomicFile file_;
  uint64_t remaining_bytes_;
};

// Writes all `tensors`, sorted by element size (wide first) and name, as the Python library does: same tensors, same
// bytes.
Status WriteSafetensors(const std::string& path, std::span<const SafetensorsFile::Entry> tensors,
                        const std::map<std::string, std::string>& metadata = {});

}  // namespace minicpm
