// Header building and streamed writing for safetensors_writer.h.
#include "store/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/utf8.h"

namespace minicpm {
namespace {

constexpr size_t kHeaderAlignment = 8;

// JSON string literal. Requires: valid UTF-8.
std::string Literal(const std::string& text) { return nlohmann::json(text).dump(); }

std::unexpected<Error> Invalid(const std::string& path, const std::string& name, const char* what) {
  return Fail(ErrorCode::kInvalidArgument, Printable(path, 4096) + ": tensor \"" + Printable(name) + "\" " + what);
}

// Place of a dtype in a file: wide elements first, ties as the Rust library breaks them (its enum, downwards).
int Rank(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 0;
    case DType::kF32:
      return 1;
    case DType::kI32:
      return 2;
    case DType::kBF16:
      return 3;
    case DType::kF16:
      return 4;
    case DType::kI8:
      return 5;
    case DType::kU8:
      return 6;
    case DType::kInt8Packed:
    case DType::kInt4Packed:
      break;
  }
  return 7;
}

struct HeaderText {
  std::string json;
  uint64_t data_bytes = 0;
};

Result<HeaderText> BuildHeader(const std::string& path, std::span<const OutputTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  HeaderText header;
  std::string& json = header.json;
  json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (!IsValidUtf8(key) || !IsValidUtf8(value)) {
        return Fail(ErrorCode::kInvalidArgument, Printable(path, 4096) + ": metadata must be UTF-8");
      }
      if (json.back() != '{') json += ',';
      json += Literal(key) + ":" + Literal(value);
    }
    json += '}';
  }
  std::set<std::string_view> names;
  int64_t offset = 0;
  for (const OutputTensor& spec : tensors) {
    if (spec.name.empty() || spec.name == "__metadata__" || !IsValidUtf8(spec.name)) {
      return Invalid(path, spec.name, "has a name that is empty, reserved or not UTF-8");
    }
    if (!names.insert(spec.name).second) return Invalid(path, spec.name, "is listed twice");
    if (IsPacked(spec.dtype)) return Invalid(path, spec.name, "is packed, which only a bundle can hold");
    const std::optional<int64_t> bytes = CheckedBytes(spec.dtype, spec.shape);
    int64_t end = 0;
    if (!bytes.has_value() || __builtin_add_overflow(offset, *bytes, &end)) {
      return Invalid(path, spec.name, "has a size that overflows");
    }
    if (offset % static_cast<int64_t>(SizeOf(spec.dtype)) != 0) {
      return Invalid(path, spec.name, "would not be aligned to its element size");
    }
    if (json.size() > 1) json += ',';
    json += Literal(spec.name) + ":{\"dtype\":\"" + NameOf(spec.dtype) + "\",\"shape\":[";
    for (int i = 0; i < spec.shape.rank(); ++i) {
      if (i > 0) json += ',';
      json += std::to_string(spec.shape[i]);
    }
    json += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  json += '}';
  json.append((kHeaderAlignment - json.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  header.data_bytes = static_cast<uint64_t>(offset);
  return header;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, AtomicFile file, uint64_t data_bytes)
    : path_(std::move(path)), file_(std::move(file)), remaining_bytes_(data_bytes) {}

Result<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path, std::span<const OutputTensor> tensors,
                                                    const std::map<std::string, std::string>& metadata) {
  MINICPM_ASSIGN(const HeaderText header, BuildHeader(path, tensors, metadata));
  if (header.json.size() > SafetensorsFile::kMaxHeaderBytes) {
    return Fail(ErrorCode::kInvalidArgument, Printable(path, 4096) + ": too many tensors, the header would have " +
                                                 std::to_string(header.json.size()) + " bytes");
  }
  MINICPM_ASSIGN(AtomicFile file, AtomicFile::Create(path));
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix += static_cast<char>(header.json.size() >> (8 * i) & 0xff);
  MINICPM_TRY(file.Write(prefix));
  MINICPM_TRY(file.Write(header.json));
  return SafetensorsWriter(path, std::move(file), header.data_bytes);
}

Status SafetensorsWriter::Append(std::span<const std::byte> bytes) {
  if (bytes.size() > remaining_bytes_) {
    return Fail(ErrorCode::kInvalidArgument, Printable(path_, 4096) + ": " + std::to_string(bytes.size()) +
                                                 " bytes of data given, " + std::to_string(remaining_bytes_) +
                                                 " expected");
  }
  MINICPM_TRY(file_.Write(bytes));
  remaining_bytes_ -= bytes.size();
  return {};
}

Status SafetensorsWriter::Finish() {
  if (remaining_bytes_ != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                Printable(path_, 4096) + ": " + std::to_string(remaining_bytes_) + " bytes of data are missing");
  }
  return file_.Commit();
}

Status WriteSafetensors(const std::string& path, std::span<const SafetensorsFile::Entry> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorsFile::Entry*> sorted;
  for (const auto& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->view.dtype != b->view.dtype ? Rank(a->view.dtype) < Rank(b->view.dtype) : a->name < b->name;
  });
  std::vector<OutputTensor> specs;
  for (const auto* tensor : sorted) specs.push_back({tensor->name, tensor->view.dtype, tensor->view.shape});
  MINICPM_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(path, specs, metadata));
  for (const auto* tensor : sorted) {
    MINICPM_TRY(writer.Append({static_cast<const std::byte*>(tensor->view.data), tensor->view.bytes()}));
  }
  return writer.Finish();
}

}  // namespace minicpm
