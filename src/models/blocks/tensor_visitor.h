// The one listing of a tower's tensors: each tower has a Visit function that names every tensor with its shape and the
// field it lives in. Loading, checking and listing (inspect, quantising) are visitors over it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "ops/linear.h"
#include "store/checkpoint.h"
#include "tensor/tensor.h"

namespace minicpm {

// What a tensor is used for; the quantiser decides by this.
enum class TensorRole {
  kLinear,     // [N, K] weight of a matmul
  kPlain,      // [K, N] used as x @ P
  kEmbedding,  // rows gathered by id
  kHead,       // [N, K] output projection onto the vocabulary
  kVector,     // bias, norm weight, query: small, kept in f32
  kConv,       // convolution kernel, used as a matmul
};

// Whether a tensor of this role may be stored as packed INT8 or INT4 (quant/packed.h). Position tables are kept in
// float by whoever writes them, but could be packed.
inline bool MayBePacked(TensorRole role) {
  return role == TensorRole::kLinear || role == TensorRole::kEmbedding || role == TensorRole::kHead;
}

struct TensorSpec {
  std::string name;
  Shape shape;
  TensorRole role;
};

class TensorVisitor {
 public:
  virtual ~TensorVisitor() = default;
  // A tensor that stays where it is.
  virtual Status Map(const std::string& name, const Shape& shape, TensorRole role, TensorView& field) = 0;
  // A small tensor, kept as f32.
  virtual Status Copy(const std::string& name, const Shape& shape, std::vector<float>& field) = 0;
};

// A Linear's weight and, if it has one, its bias, as a tower keeps them.
struct LinearField {
  TensorView weight;        // [N, K]
  std::vector<float> bias;  // [N] or empty
  LinearWeight view() const { return {weight, bias.empty() ? nullptr : bias.data()}; }
};

enum class HasBias { kNo, kYes };
// prefix + ".weight" and, with kYes, prefix + ".bias".
Status VisitLinear(TensorVisitor& v, const std::string& prefix, int64_t n, int64_t k, HasBias bias, LinearField& field);

struct NormField {
  std::vector<float> weight;
  std::vector<float> bias;  // empty for RMSNorm
};
Status VisitLayerNorm(TensorVisitor& v, const std::string& prefix, int64_t width, NormField& field);
Status VisitRmsNorm(TensorVisitor& v, const std::string& name, int64_t width, NormField& field);

// Fills the fields from a checkpoint. Errors: missing tensor, wrong dtype or shape, with what was expected and found.
class CheckpointLoader : public TensorVisitor {
 public:
  explicit CheckpointLoader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  Status Map(const std::string& name, const Shape& shape, TensorRole role, TensorView& field) override;
  Status Copy(const std::string& name, const Shape& shape, std::vector<float>& field) override;

 private:
  const Checkpoint& checkpoint_;
};

// Collects the names and shapes and touches nothing.
class TensorLister : public TensorVisitor {
 public:
  Status Map(const std::string& name, const Shape& shape, TensorRole role, TensorView& field) override;
  Status Copy(const std::string& name, const Shape& shape, std::vector<float>& field) override;
  const std::vector<TensorSpec>& specs() const { return specs_; }

 private:
  std::vector<TensorSpec> specs_;
};

}  // namespace minicpm
