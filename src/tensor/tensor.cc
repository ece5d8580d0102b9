// Implementation of tensor.h.
#include "tensor/tensor.h"

namespace minicpm {

size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kI8:
    case DType::kU8:
      return 1;
    case DType::kInt8Packed:
    case DType::kInt4Packed:
      break;
  }
  MINICPM_CHECK(!IsPacked(dtype));
  return 0;
}

const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
    case DType::kInt8Packed:
      return "INT8";
    case DType::kInt4Packed:
      return "INT4";
  }
  return "?";
}

std::string Shape::ToString() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i != 0) s += ", ";
    s += std::to_string(dims_[i]);
  }
  return s + "]";
}

}  // namespace minicpm
