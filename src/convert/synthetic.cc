// Implementation of synthetic.h. Weights have a standard deviation of about 0.02, norms are 1; packed ones are drawn in
// packed form, inside the promises of quant/packed.h.
#include "convert/synthetic.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/native/native_model.h"
#include "base/half.h"
#include "convert/encode.h"
#include "convert/random_bits.h"
#include "convert/synthetic_model.h"
#include "engine/digest.h"
#include "os/atomic_file.h"
#include "os/thread_pool.h"

namespace minicpm {
namespace {

constexpr float kDeviation = 0.02f;
constexpr uint64_t kBlockBytes = uint64_t{8} << 20;
constexpr int64_t kElementsPerTask = 1 << 16;

// Puts the weights of a row from column `first` on to the zero point.
void ClearColumns(DType dtype, uint8_t* panel, int row, int64_t first, int64_t padded) {
  for (int64_t k = first; k < padded; ++k) {
    if (dtype == DType::kInt8Packed) {
      panel[quant::kPanelHeaderBytes + k / 4 * 64 + 4 * row + k % 4] = quant::kInt8Zero;
      continue;
    }
    uint8_t* const block = panel + quant::kPanelHeaderBytes + k / quant::kInt4Columns * quant::kInt4BlockBytes;
    uint8_t& byte = block[64 + k % quant::kInt4Columns / 8 * 64 + 4 * row + k % 4];
    byte = k % 8 < 4 ? static_cast<uint8_t>((byte & 0xf0) | quant::kInt4Zero)
                     : static_cast<uint8_t>((byte & 0x0f) | quant::kInt4Zero << 4);
  }
}

// A random panel whose first `rows` rows count. `at` counts 64-bit numbers of the stream.
void FillPanel(DType dtype, int64_t rows, int64_t k, uint64_t key, uint64_t at, uint8_t* panel) {
  const int64_t bytes = quant::PanelBytes(dtype, k);
  const bool int8 = dtype == DType::kInt8Packed;
  // INT8: q - 64 is -32..31, so that 8 of them never pass the lane limit of 258.
  for (int64_t i = quant::kPanelHeaderBytes; i < bytes; i += 8) {
    uint64_t bits = RandomBits(key, at++);
    if (int8) bits = (bits & 0x3f3f3f3f3f3f3f3fu) + 0x2020202020202020u;
    std::memcpy(panel + i, &bits, 8);
  }
  if (!int8) {
    for (int64_t i = quant::kPanelHeaderBytes; i < bytes; i += quant::kInt4BlockBytes) {
      for (int j = 0; j < 64; ++j) panel[i + j] = static_cast<uint8_t>(96 | (panel[i + j] & 31));
    }
  }
  // The deviation of whole numbers in -32..31, and of -8..7 times 96..127.
  const float scale = int8 ? kDeviation / 18.47f : kDeviation / (4.61f * 111.8f);
  const int64_t padded = quant::PaddedColumns(dtype, k);
  for (int row = 0; row < quant::kPanelRows; ++row) {
    const float s = row < rows ? scale : 0.0f;
    std::memcpy(panel + 4 * row, &s, sizeof s);
    ClearColumns(dtype, panel, row, row < rows ? k : 0, padded);
  }
}

void FillFloats(const PlannedTensor& tensor, int64_t first, int64_t n, uint64_t key, std::byte* out) {
  // Weights of norms are one; other vectors are biases and queries.
  const bool ones = tensor.group.ends_with(".vectors") && tensor.name.ends_with(".weight");
  const float step = kDeviation * 3.4641016f * 0x1p-32f;  // an even distribution of that deviation
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<int32_t>(RandomBits(key, static_cast<uint64_t>(first + i)) >> 32);
    const float value = ones ? 1.0f : static_cast<float>(bits) * step;
    if (tensor.dtype == DType::kF32) {
      std::memcpy(out + 4 * i, &value, 4);
    } else {
      const uint16_t half = tensor.dtype == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
      std::memcpy(out + 2 * i, &half, 2);
    }
  }
}

class Generator {
 public:
  Generator(const SyntheticOptions& options, const Plan& plan, BundleWriter& writer)
      : options_(options),
        plan_(plan),
        writer_(writer),
        pool_(options.n_threads > 0 ? options.n_threads : UsableCores()) {
    for (const auto& span : writer.layout().tensors) total_ += span.bytes;
  }

  // False when cancelled.
  Result<bool> Run() {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (writer_.Finished(i) != nullptr) {
        done_ += writer_.layout().tensors[i].bytes;
        continue;
      }
      MINICPM_ASSIGN(const bool finished, Tensor(i));
      if (!finished) {
        MINICPM_TRY(writer_.Sync());
        return false;
      }
    }
    return true;
  }

 private:
  Result<bool> Tensor(size_t i) {
    const PlannedTensor& tensor = plan_.tensors[i];
    const BlockShape shape = BlockShapeOf(tensor, kBlockBytes);
    const uint64_t key = RandomKey(options_.seed, tensor.name);
    Sha256 hash;
    uint64_t offset = 0;
    for (int64_t row = 0; row < shape.n_rows; row += shape.rows_at_once) {
      if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) return false;
      const int64_t n = std::min(shape.rows_at_once, shape.n_rows - row);
      block_.resize(StoredBytesOfRows(tensor, shape, n));
      Fill(tensor, shape, row, n, key);
      hash.Update(block_);
      MINICPM_TRY(writer_.Write(i, offset, block_));
      offset += block_.size();
      done_ += block_.size();
      if (options_.listener != nullptr) options_.listener->OnProgress("writing", done_, total_);
    }
    FinishedTensor finished;
    finished.sha256 = Hex(hash.Finish());
    MINICPM_TRY(writer_.Finish(i, std::move(finished)));
    return true;
  }

  void Fill(const PlannedTensor& tensor, const BlockShape& shape, int64_t first, int64_t n, uint64_t key) {
    const bool packed = IsPacked(tensor.dtype);
    const int64_t step = packed ? quant::kPanelRows : kElementsPerTask;
    const int64_t panel_bytes = packed ? quant::PanelBytes(tensor.dtype, shape.n_columns) : 0;
    pool_.ParallelFor((n + step - 1) / step, [&](int64_t task, int) {
      const int64_t begin = task * step;
      const int64_t count = std::min(step, n - begin);
      if (packed) {
        FillPanel(tensor.dtype, count, shape.n_columns, key,
                  static_cast<uint64_t>((first + begin) / step * (panel_bytes / 8)),
                  reinterpret_cast<uint8_t*>(block_.data()) + task * panel_bytes);
      } else {
        FillFloats(tensor, first + begin, count, key,
                   block_.data() + static_cast<size_t>(begin) * SizeOf(tensor.dtype));
      }
    });
  }

  const SyntheticOptions& options_;
  const Plan& plan_;
  BundleWriter& writer_;
  ThreadPool pool_;
  std::vector<std::byte> block_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

std::string RecipeText(const Plan& plan) {
  std::string text;
  for (const auto& [key, value] : plan.recipe) text += (text.empty() ? "" : ", ") + key + " " + value;
  return text;
}

}  // namespace

Result<FinishedBundle> WriteSyntheticBundle(const SyntheticOptions& options) {
  MINICPM_ASSIGN(const SyntheticModel model, MakeSyntheticModel(options.model, options.seed));
  std::vector<SourceTensor> source;
  for (const PartListing& part : ListTensors(model.config)) {
    for (const TensorSpec& spec : part.tensors) source.push_back({spec.name, DType::kBF16, spec.shape});
  }
  MINICPM_ASSIGN(const Plan plan, MakePlan(model.config, source, options.recipe));
  MINICPM_ASSIGN(WeightsLayout layout, LayOutWeights(plan.tensors));

  BundleWriterOptions writer_options;
  writer_options.folder = options.folder;
  writer_options.restart = options.restart;
  writer_options.force = options.force;
  writer_options.created_utc = options.created_utc.empty() ? UtcNow() : options.created_utc;
  writer_options.sync_bytes = uint64_t{512} << 20;  // quick to make again
  for (const auto& [name, content] : model.files) writer_options.other_bytes += content.size();
  const BundleIdentity identity = {options.tool, RecipeText(plan),
                                   "synthetic " + model.name + " with seed " + std::to_string(options.seed)};
  MINICPM_ASSIGN(BundleWriter writer, BundleWriter::Open(writer_options, identity, plan.tensors, std::move(layout)));
  for (const auto& [name, content] : model.files) {
    MINICPM_ASSIGN(AtomicFile file, AtomicFile::Create(writer.partial_folder() + "/" + name));
    MINICPM_TRY(file.Write(content));
    MINICPM_TRY(file.Commit());
  }
  MINICPM_ASSIGN(const bool written, Generator(options, plan, writer).Run());
  if (!written) {
    FinishedBundle stopped;
    stopped.cancelled = true;
    return stopped;
  }
  FinishOptions finish;
  finish.family = FamilyName(model.config.family);
  finish.tool = options.tool;
  finish.synthetic = true;
  finish.source = model.name + ", seed " + std::to_string(options.seed);
  finish.selftest = options.selftest;
  finish.n_threads = options.n_threads;
  finish.cancel = options.cancel;
  finish.listener = options.listener;
  return FinishBundle(writer, plan, finish);
}

}  // namespace minicpm
