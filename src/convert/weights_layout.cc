// Implementation of weights_layout.h.
#include "convert/weights_layout.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.h"
#include "quant/packed.h"
#include "store/bundle_manifest.h"
#include "store/safetensors.h"

namespace minicpm {
namespace {

constexpr uint64_t kDataAlignment = uint64_t{2} << 20;
constexpr uint64_t kTensorAlignment = 64;
constexpr uint64_t kLengthBytes = 8;

uint64_t RoundUp(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

void AddEntry(std::string& json, const std::string& name, DType dtype, const Shape& shape, uint64_t begin,
              uint64_t end) {
  json += ',' + nlohmann::json(name).dump() + ":{\"dtype\":\"" + NameOf(dtype) + "\",\"shape\":[";
  for (int i = 0; i < shape.rank(); ++i) json += (i > 0 ? "," : "") + std::to_string(shape[i]);
  json += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace

Result<WeightsLayout> LayOutWeights(std::span<const PlannedTensor> tensors) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;
  WeightsLayout layout;
  std::string json = R"({"__metadata__":{"format":"minicpm-bundle"})";
  uint64_t end = 0;
  for (const PlannedTensor& tensor : tensors) {
    if (const uint64_t begin = RoundUp(end, kTensorAlignment); begin != end) {
      AddEntry(json, kPadPrefix + std::to_string(layout.pads.size()), DType::kU8,
               Shape{static_cast<int64_t>(begin - end)}, end, begin);
      layout.pads.push_back({end, begin - end});
      end = begin;
    }
    const std::optional<int64_t> bytes = IsPacked(tensor.dtype)
                                             ? quant::CheckedPackedBytes(tensor.dtype, tensor.shape[0], tensor.shape[1])
                                             : CheckedBytes(tensor.dtype, tensor.shape);
    if (!bytes.has_value() || static_cast<uint64_t>(*bytes) > kMostBytes - end || !IsValidUtf8(tensor.name)) {
      return Fail(ErrorCode::kInvalidArgument, "tensor \"" + Printable(tensor.name) + "\" of shape " +
                                                   tensor.shape.ToString() + " cannot be stored as " +
                                                   NameOf(tensor.dtype));
    }
    const auto n = static_cast<uint64_t>(*bytes);
    AddEntry(json, tensor.name, IsPacked(tensor.dtype) ? DType::kU8 : tensor.dtype,
             IsPacked(tensor.dtype) ? Shape{*bytes} : tensor.shape, end, end + n);
    layout.tensors.push_back({end, n});
    end += n;
  }
  json += '}';
  const uint64_t data_begin = RoundUp(kLengthBytes + json.size(), kDataAlignment);
  const uint64_t length = data_begin - kLengthBytes;
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "too many tensors: the header of the weights would have " + std::to_string(length) + " bytes");
  }
  json.append(length - json.size(), ' ');
  for (uint64_t i = 0; i < kLengthBytes; ++i) layout.header += static_cast<char>(length >> (8 * i) & 0xff);
  layout.header += json;
  for (auto* spans : {&layout.tensors, &layout.pads}) {
    for (WeightsLayout::Span& span : *spans) span.offset += data_begin;
  }
  layout.file_bytes = data_begin + end;
  return layout;
}

}  // namespace minicpm
