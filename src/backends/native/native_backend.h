// The native backend: our own towers on our own kernels, behind the Backend interface.
// Not for choosing a backend: the engine does that.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/native/native_model.h"

namespace minicpm {

struct NativeBackendOptions {
  int n_threads = 0;  // 0 = all usable cores
  bool pin = false;
  std::string isa;               // "" = best available
  DType kv_dtype = DType::kF16;  // kF16 | kF32 | kI8
  int64_t kv_tokens = 0;         // positions of all sequences together
};

// Errors: those of Compute::Create; kInvalidArgument for a KV dtype that is none of these; kResourceExhausted when
// the cache does not fit into the memory that is available (with both numbers).
Result<std::unique_ptr<Backend>> NewNativeBackend(std::shared_ptr<const NativeModel> model,
                                                  const NativeBackendOptions& options);

}  // namespace minicpm
