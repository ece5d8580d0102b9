// Implementation of expand_checkpoint.h.
#include "tests/support/expand_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/half.h"
#include "store/checkpoint.h"
#include "store/safetensors_writer.h"

namespace minicpm::test {
namespace {

bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

float ReadFloat(const TensorView& view, int64_t i) {
  switch (view.dtype) {
    case DType::kF32:
      return view.as<float>()[i];
    case DType::kF16:
      return F16ToF32(view.as<uint16_t>()[i]);
    default:
      return Bf16ToF32(view.as<uint16_t>()[i]);
  }
}

std::vector<std::byte> Convert(const TensorView& view, DType dtype) {
  const int64_t n = view.shape.elements();
  std::vector<std::byte> out(static_cast<size_t>(n) * SizeOf(dtype));
  for (int64_t i = 0; i < n; ++i) {
    const float value = ReadFloat(view, i);
    std::byte* place = out.data() + static_cast<size_t>(i) * SizeOf(dtype);
    if (dtype == DType::kF32) {
      std::memcpy(place, &value, sizeof(value));
    } else {
      const uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
      std::memcpy(place, &half, sizeof(half));
    }
  }
  return out;
}

Status CopyOtherFiles(const std::string& from_folder, const std::string& to_folder) {
  try {
    std::filesystem::create_directories(to_folder);
    for (const auto& file : std::filesystem::directory_iterator(from_folder)) {
      const std::string name = file.path().filename().string();
      if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) continue;
      std::filesystem::copy(
          file.path(), std::filesystem::path(to_folder) / name,
          std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
    }
  } catch (const std::filesystem::filesystem_error& e) {
    return Fail(ErrorCode::kIo, e.what());
  }
  return {};
}

}  // namespace

Status ExpandCheckpoint(const std::string& from_folder, const std::string& to_folder, DType dtype) {
  MINICPM_CHECK(IsFloat(dtype));
  MINICPM_ASSIGN(const Checkpoint from, Checkpoint::Open(from_folder));
  MINICPM_TRY(CopyOtherFiles(from_folder, to_folder));

  auto entries = from.entries();  // sorted by name
  const auto new_dtype = [&](const SafetensorsFile::Entry* e) {
    return IsFloat(e->view.dtype) ? dtype : e->view.dtype;
  };
  std::sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
    const size_t size_a = SizeOf(new_dtype(a));
    const size_t size_b = SizeOf(new_dtype(b));
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  std::vector<OutputTensor> specs;
  for (const auto* entry : entries) specs.push_back({entry->name, new_dtype(entry), entry->view.shape});
  const std::string path = (std::filesystem::path(to_folder) / "model.safetensors").string();
  MINICPM_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(path, specs, {{"format", "pt"}}));
  for (const auto* entry : entries) {
    if (IsFloat(entry->view.dtype)) {
      MINICPM_TRY(writer.Append(Convert(entry->view, dtype)));
    } else {
      MINICPM_TRY(writer.Append({static_cast<const std::byte*>(entry->view.data), entry->view.bytes()}));
    }
  }
  return writer.Finish();
}

}  // namespace minicpm::test
