// Implementation of tensor_visitor.h: the two standard visitors.
#include "models/blocks/tensor_visitor.h"

#include "ops/convert.h"

namespace minicpm {

Status VisitLinear(TensorVisitor& v, const std::string& prefix, int64_t n, int64_t k, HasBias bias,
                   LinearField& field) {
  MINICPM_TRY(v.Map(prefix + ".weight", Shape{n, k}, TensorRole::kLinear, field.weight));
  if (bias == HasBias::kYes) MINICPM_TRY(v.Copy(prefix + ".bias", Shape{n}, field.bias));
  return {};
}

Status VisitLayerNorm(TensorVisitor& v, const std::string& prefix, int64_t width, NormField& field) {
  MINICPM_TRY(v.Copy(prefix + ".weight", Shape{width}, field.weight));
  return v.Copy(prefix + ".bias", Shape{width}, field.bias);
}

Status VisitRmsNorm(TensorVisitor& v, const std::string& name, int64_t width, NormField& field) {
  return v.Copy(name, Shape{width}, field.weight);
}

Status CheckpointLoader::Map(const std::string& name, const Shape& shape, TensorRole role, TensorView& field) {
  if (MayBePacked(role)) {
    MINICPM_ASSIGN(
        field,
        checkpoint_.Get(name, shape, {DType::kF32, DType::kF16, DType::kBF16, DType::kInt8Packed, DType::kInt4Packed}));
  } else {
    MINICPM_ASSIGN(field, checkpoint_.Get(name, shape, {DType::kF32, DType::kF16, DType::kBF16}));
  }
  return {};
}

Status CheckpointLoader::Copy(const std::string& name, const Shape& shape, std::vector<float>& field) {
  MINICPM_ASSIGN(const TensorView view, checkpoint_.Get(name, shape, {DType::kF32, DType::kF16, DType::kBF16}));
  field.resize(static_cast<size_t>(shape.elements()));
  ToFloat(view, field.data());
  return {};
}

Status TensorLister::Map(const std::string& name, const Shape& shape, TensorRole role, TensorView&) {
  specs_.push_back({name, shape, role});
  return {};
}

Status TensorLister::Copy(const std::string& name, const Shape& shape, std::vector<float>&) {
  specs_.push_back({name, shape, TensorRole::kVector});
  return {};
}

}  // namespace minicpm
