// dtype, shape, and a non-owning read-only view of a dense row-major tensor. Not for maths: see src/ops.
// Dimension names in comments come from docs/shapes.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"

namespace minicpm {

// The last two are quantised matrices [N, K], packed in panels (src/quant/packed.h): they have no element size.
enum class DType : uint8_t { kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kInt8Packed, kInt4Packed };

inline bool IsPacked(DType dtype) { return dtype == DType::kInt8Packed || dtype == DType::kInt4Packed; }
// Bytes of one element. Requires: not packed.
size_t SizeOf(DType dtype);
// safetensors' spelling: "F32", "F16", "BF16", "I64", "I32", "I8", "U8"; "INT8" and "INT4" for the packed ones.
const char* NameOf(DType dtype);

// Up to 5 dimensions, outermost first. A rank-0 shape has one element.
class Shape {
 public:
  static constexpr int kMaxRank = 5;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    MINICPM_CHECK(dims.size() <= kMaxRank);
    for (int i = 0; i < rank_; ++i) dims_[i] = dims[i];
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  bool operator==(const Shape& o) const { return rank_ == o.rank_ && dims_ == o.dims_; }
  // "[1152, 3, 14, 14]"
  std::string ToString() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Read-only view of a contiguous tensor somebody else owns (usually a mapped file). Copy freely.
// Lifetime: valid while the owner of `data` lives.
struct TensorView {
  const void* data = nullptr;  // may be aligned to the element size only
  DType dtype = DType::kF32;
  Shape shape;

  bool empty() const { return data == nullptr; }
  // Requires: not packed (quant::BytesOf knows those).
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
  // Requires: T matches dtype (float for kF32, uint16_t for kF16/kBF16, ...).
  template <class T>
  const T* as() const {
    MINICPM_CHECK(sizeof(T) == SizeOf(dtype));
    return static_cast<const T*>(data);
  }
};

// A row-major matrix of T with a row stride; the currency between ops. T is float, const float, ...
template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next, >= cols

  MatrixView() = default;
  MatrixView(T* d, int64_t r, int64_t c) : data(d), rows(r), cols(c), stride(c) {}
  MatrixView(T* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  T* row(int64_t r) const { return data + r * stride; }
  // Rows [begin, begin + n).
  MatrixView Rows(int64_t begin, int64_t n) const { return MatrixView(data + begin * stride, n, cols, stride); }
  // Columns [begin, begin + n) of all rows.
  MatrixView Cols(int64_t begin, int64_t n) const { return MatrixView(data + begin, rows, n, stride); }
  operator MatrixView<const T>() const { return {data, rows, cols, stride}; }
};
using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

}  // namespace minicpm
