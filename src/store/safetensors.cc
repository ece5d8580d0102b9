// The safetensors reader: header by simdjson, then every rule of the format checked before a view is handed out.
// Rules: the "Format" section of the safetensors README and the validation in its Rust reader (tensor.rs).
#include "store/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace minicpm {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxJsonDepth = 8;        // a header needs 4: object, tensor, shape, number
constexpr size_t kMaxPointerBytes = 1024;  // git-lfs: "pointer files must be less than 1024 bytes in size"

// A tensor as its header describes it; offsets count from the first data byte.
struct RawTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct RawHeader {
  std::vector<RawTensor> tensors;
  std::map<std::string, std::string> metadata;
};

std::optional<DType> DTypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kI8, DType::kU8}) {
    if (name == NameOf(dtype)) return dtype;
  }
  return std::nullopt;
}

std::string Quoted(std::string_view name) { return '"' + Printable(name, 200) + '"'; }

// Reads the header of one file; holds the file's name for messages.
class HeaderReader {
 public:
  explicit HeaderReader(std::string file) : file_(std::move(file)) {}

  std::unexpected<Error> Corrupt(const std::string& what) const { return Fail(ErrorCode::kCorrupt, file_ + what); }
  std::unexpected<Error> Corrupt(const RawTensor& tensor, const std::string& what) const {
    return Corrupt(": tensor " + Quoted(tensor.name) + " " + what);
  }
  std::unexpected<Error> Unsupported(const RawTensor& tensor, const std::string& what) const {
    return Fail(ErrorCode::kUnsupported, file_ + ": tensor " + Quoted(tensor.name) + " " + what);
  }

  // Length of the JSON header; it lies within `bytes`.
  Result<size_t> HeaderLength(std::span<const std::byte> bytes) const;
  Result<RawHeader> Parse(std::string_view json) const;
  // Sorts by offset and checks that the data of all tensors is one piece from 0; gives its length.
  Result<uint64_t> CheckLayout(std::vector<RawTensor>& tensors) const;

 private:
  Status ParseMetadata(simdjson::dom::element value, std::map<std::string, std::string>& metadata) const;
  Result<RawTensor> ParseTensor(std::string_view name, simdjson::dom::element value) const;
  Status ParseDType(simdjson::dom::element value, RawTensor& tensor) const;
  Status ParseShape(simdjson::dom::element value, RawTensor& tensor) const;
  Status ParseOffsets(simdjson::dom::element value, RawTensor& tensor) const;
  Status CheckSize(const RawTensor& tensor) const;

  std::string file_;
};

// The size that a git-lfs pointer names, or nothing when `bytes` is not one. Both spellings of the first line occur.
std::optional<std::string> LfsPointerSize(std::string_view bytes) {
  if (bytes.size() > kMaxPointerBytes) return std::nullopt;
  if (!bytes.starts_with("version https://git-lfs.github.com/spec/") &&
      !bytes.starts_with("version https://hawser.github.com/spec/")) {
    return std::nullopt;
  }
  const size_t key = bytes.find("\nsize ");
  if (key == std::string_view::npos) return "an unknown number of";
  bytes.remove_prefix(key + 6);
  const size_t digits = std::min(bytes.find_first_not_of("0123456789"), bytes.size());
  if (digits == 0 || digits > 20) return "an unknown number of";
  return std::string(bytes.substr(0, digits));
}

Result<size_t> HeaderReader::HeaderLength(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return Corrupt(" is empty (0 bytes), expected safetensors weights");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto size = LfsPointerSize(text); size.has_value()) {
    return Corrupt(" is a git-lfs pointer (" + *size + " bytes of weights are not here); run git lfs pull");
  }
  if (bytes.size() < kLengthBytes) {
    return Corrupt(" has " + std::to_string(bytes.size()) + " bytes, too few for a safetensors file");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    return Corrupt(" is not a safetensors file: its header would have " + std::to_string(length) + " bytes, at most " +
                   std::to_string(SafetensorsFile::kMaxHeaderBytes) + " are accepted");
  }
  if (length > bytes.size() - kLengthBytes) {
    return Corrupt(" is truncated: expected at least " + std::to_string(kLengthBytes + length) +
                   " bytes by its header length, has " + std::to_string(bytes.size()));
  }
  return static_cast<size_t>(length);
}

Result<RawHeader> HeaderReader::Parse(std::string_view json) const {
  if (!json.starts_with('{')) return Corrupt(": the header does not begin with '{'");
  simdjson::dom::parser parser(SafetensorsFile::kMaxHeaderBytes);
  simdjson::dom::element root;
  simdjson::error_code error = parser.allocate(json.size(), kMaxJsonDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(json.data(), json.size()).get(root);
  simdjson::dom::object object;
  if (error == simdjson::SUCCESS) error = root.get(object);
  if (error == simdjson::MEMALLOC) {
    return Fail(ErrorCode::kResourceExhausted,
                file_ + ": no memory to parse its header of " + std::to_string(json.size()) + " bytes");
  }
  if (error != simdjson::SUCCESS) {
    return Corrupt(std::string(": the header is not valid JSON: ") + simdjson::error_message(error));
  }
  RawHeader header;
  std::unordered_set<std::string_view> names;  // point into the parser
  for (const auto field : object) {
    if (!names.insert(field.key).second) return Corrupt(": the header holds " + Quoted(field.key) + " twice");
    if (field.key == "__metadata__") {
      MINICPM_TRY(ParseMetadata(field.value, header.metadata));
    } else {
      MINICPM_ASSIGN(RawTensor tensor, ParseTensor(field.key, field.value));
      header.tensors.push_back(std::move(tensor));
    }
  }
  return header;
}

Status HeaderReader::ParseMetadata(simdjson::dom::element value, std::map<std::string, std::string>& metadata) const {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return Corrupt(": \"__metadata__\" must be an object");
  for (const auto field : object) {
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return Corrupt(": \"__metadata__\" must hold strings only, but " + Quoted(field.key) + " is none");
    }
    if (!metadata.emplace(field.key, text).second) {
      return Corrupt(": \"__metadata__\" holds " + Quoted(field.key) + " twice");
    }
  }
  return {};
}

Result<RawTensor> HeaderReader::ParseTensor(std::string_view name, simdjson::dom::element value) const {
  RawTensor tensor;
  tensor.name = name;
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return Corrupt(tensor, "must be described by an object");
  int n_dtype = 0;
  int n_shape = 0;
  int n_offsets = 0;
  for (const auto field : object) {  // other keys are ignored: a later version of the format may add some
    if (field.key == "dtype") {
      ++n_dtype;
      MINICPM_TRY(ParseDType(field.value, tensor));
    } else if (field.key == "shape") {
      ++n_shape;
      MINICPM_TRY(ParseShape(field.value, tensor));
    } else if (field.key == "data_offsets") {
      ++n_offsets;
      MINICPM_TRY(ParseOffsets(field.value, tensor));
    }
  }
  if (n_dtype != 1 || n_shape != 1 || n_offsets != 1) {
    return Corrupt(tensor, "must have dtype, shape and data_offsets once each");
  }
  MINICPM_TRY(CheckSize(tensor));
  return tensor;
}

Status HeaderReader::ParseDType(simdjson::dom::element value, RawTensor& tensor) const {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return Corrupt(tensor, "has a dtype that is not a string");
  const auto dtype = DTypeNamed(text);
  if (!dtype.has_value()) {
    return Unsupported(tensor, "has dtype " + Quoted(text) + ", supported are F32, F16, BF16, I64, I32, I8 and U8");
  }
  tensor.dtype = *dtype;
  return {};
}

Status HeaderReader::ParseShape(simdjson::dom::element value, RawTensor& tensor) const {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return Corrupt(tensor, "has a shape that is not a list");
  std::vector<int64_t> dims;
  for (const simdjson::dom::element element : array) {
    int64_t dim = 0;
    if (element.get(dim) != simdjson::SUCCESS || dim < 0) {
      return Corrupt(tensor, "has a shape with an entry that is not a whole number from 0 to 2^63 - 1");
    }
    dims.push_back(dim);
    if (dims.size() > Shape::kMaxRank) {
      return Unsupported(tensor, "has more than " + std::to_string(Shape::kMaxRank) + " dimensions");
    }
  }
  tensor.shape = Shape(std::span<const int64_t>(dims));
  return {};
}

Status HeaderReader::ParseOffsets(simdjson::dom::element value, RawTensor& tensor) const {
  simdjson::dom::array array;
  if (value.get(array) == simdjson::SUCCESS) {
    uint64_t offsets[2] = {0, 0};
    size_t n = 0;
    for (const simdjson::dom::element element : array) {
      if (n == 2 || element.get(offsets[n]) != simdjson::SUCCESS) {
        n = 0;
        break;
      }
      ++n;
    }
    if (n == 2 && offsets[0] <= offsets[1]) {
      tensor.begin = offsets[0];
      tensor.end = offsets[1];
      return {};
    }
  }
  return Corrupt(tensor, "must have data_offsets [begin, end] with begin <= end");
}

Status HeaderReader::CheckSize(const RawTensor& tensor) const {
  const std::optional<int64_t> expected = CheckedBytes(tensor.dtype, tensor.shape);
  if (!expected.has_value()) {
    return Corrupt(tensor, "has shape " + tensor.shape.ToString() + ", whose size in bytes overflows");
  }
  if (tensor.end - tensor.begin != static_cast<uint64_t>(*expected)) {
    return Corrupt(tensor, "has shape " + tensor.shape.ToString() + " " + NameOf(tensor.dtype) + ", which takes " +
                               std::to_string(*expected) + " bytes, but its data_offsets span " +
                               std::to_string(tensor.end - tensor.begin));
  }
  return {};
}

Result<uint64_t> HeaderReader::CheckLayout(std::vector<RawTensor>& tensors) const {
  std::sort(tensors.begin(), tensors.end(), [](const RawTensor& a, const RawTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t end = 0;
  const RawTensor* before = nullptr;
  for (const RawTensor& tensor : tensors) {
    if (tensor.begin < end) {
      return Corrupt(tensor, "begins at data byte " + std::to_string(tensor.begin) + ", inside " +
                                 Quoted(before->name) + " that ends at " + std::to_string(end));
    }
    if (tensor.begin > end) {
      return Corrupt(tensor, "begins at data byte " + std::to_string(tensor.begin) +
                                 ", but the data before it ends at " + std::to_string(end) + " (a hole)");
    }
    end = tensor.end;
    before = &tensor;
  }
  return end;
}

}  // namespace

std::optional<int64_t> CheckedBytes(DType dtype, const Shape& shape) {
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  bool has_zero = false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 0) return std::nullopt;
    if (shape[i] == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(bytes, shape[i], &bytes)) {
      return std::nullopt;
    }
  }
  return has_zero ? 0 : bytes;
}

Result<SafetensorsFile> SafetensorsFile::Parse(std::span<const std::byte> bytes, const std::string& name) {
  const HeaderReader reader(Printable(name, 4096));
  MINICPM_ASSIGN(const size_t header_length, reader.HeaderLength(bytes));
  const std::byte* header_bytes = bytes.data() + kLengthBytes;
  MINICPM_ASSIGN(RawHeader header, reader.Parse({reinterpret_cast<const char*>(header_bytes), header_length}));
  MINICPM_ASSIGN(const uint64_t data_length, reader.CheckLayout(header.tensors));

  const uint64_t rest = bytes.size() - kLengthBytes - header_length;
  if (data_length != rest) {
    // A sum that overflows is printed as the largest number: no file can have that many bytes.
    uint64_t expected = 0;
    if (__builtin_add_overflow(data_length, kLengthBytes + header_length, &expected)) expected = UINT64_MAX;
    return reader.Corrupt(std::string(data_length > rest ? " is truncated" : " has bytes that belong to no tensor") +
                          ": expected " + std::to_string(expected) + " bytes by its header, has " +
                          std::to_string(bytes.size()));
  }
  SafetensorsFile file;
  file.bytes_ = bytes;
  file.metadata_ = std::move(header.metadata);
  file.entries_.reserve(header.tensors.size());
  for (RawTensor& tensor : header.tensors) {
    const std::byte* data = header_bytes + header_length + tensor.begin;
    if (reinterpret_cast<uintptr_t>(data) % SizeOf(tensor.dtype) != 0) {
      return reader.Unsupported(tensor, std::string("of ") + NameOf(tensor.dtype) + " begins at file byte " +
                                            std::to_string(data - bytes.data()) +
                                            ", which is not a multiple of its element size; save the file again with a "
                                            "current safetensors library");
    }
    file.entries_.push_back({std::move(tensor.name), {data, tensor.dtype, tensor.shape}});
  }
  return file;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  MINICPM_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  MINICPM_ASSIGN(SafetensorsFile file, Parse(mapped.bytes(), path));
  file.file_ = std::move(mapped);
  return file;
}

}  // namespace minicpm
