// Implementation of convert.h.
#include "ops/convert.h"

#include <cstring>

#include "kernels/convert/convert.h"
#include "kernels/table.h"

namespace minicpm {
namespace {

void Widen(const kernels::ConvertKernels& kernel, const TensorView& t, float* out) {
  const int64_t n = t.shape.elements();
  switch (t.dtype) {
    case DType::kF32:
      std::memcpy(out, t.data, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kBF16:
      kernel.bf16_to_f32(t.as<uint16_t>(), n, out);
      return;
    case DType::kF16:
      kernel.f16_to_f32(t.as<uint16_t>(), n, out);
      return;
    default:
      MINICPM_CHECK(!"ToFloat takes float tensors");
  }
}

}  // namespace

void ToFloat(const TensorView& t, float* out) { Widen(*kernels::KernelTables().back().convert, t, out); }

void ToFloat(Compute& compute, const TensorView& t, float* out) { Widen(*compute.kernels().convert, t, out); }

void ToHalf(Compute& compute, std::span<const float> x, uint16_t* out) {
  compute.kernels().convert->f32_to_f16(x.data(), static_cast<int64_t>(x.size()), out);
}

}  // namespace minicpm
