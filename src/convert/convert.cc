// Implementation of convert.h. One thread reads and hashes, all encode, the caller's thread writes: three blocks of a
// few MiB are in memory at a time.
#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <vector>

#include "convert/encode.h"
#include "convert/source_files.h"
#include "convert/source_reader.h"
#include "engine/digest.h"
#include "models/blocks/model_config.h"
#include "os/thread_pool.h"
#include "store/checkpoint.h"

namespace minicpm {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{8} << 20;

bool Cancelled(const ConvertOptions& options) {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

std::string RecipeText(const Plan& plan) {
  std::string text;
  for (const auto& [key, value] : plan.recipe) text += (text.empty() ? "" : ", ") + key + " " + value;
  return text;
}

// What is still to be read, file by file.
std::vector<SourceFile> FilesToRead(const Checkpoint& checkpoint, const std::vector<BundleFile>& weights,
                                    const Plan& plan, const std::vector<BlockShape>& shapes,
                                    const BundleWriter& writer) {
  std::vector<SourceFile> files;
  for (size_t i = 0; i < weights.size(); ++i) files.push_back({checkpoint.files()[i], weights[i].bytes, {}});
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Checkpoint::Place place = checkpoint.PlaceOf(plan.tensors[i].name);
    if (writer.Finished(i) != nullptr || place.bytes == 0) continue;
    const uint64_t block = static_cast<uint64_t>(shapes[i].rows_at_once) * shapes[i].source_row_bytes;
    files[place.file].wanted.push_back({place.offset, place.bytes, block, i});
  }
  for (SourceFile& file : files) std::ranges::sort(file.wanted, {}, &WantedSpan::offset);
  return files;
}

class Converter {
 public:
  Converter(const ConvertOptions& options, const Checkpoint& checkpoint, const Plan& plan, BundleWriter& writer)
      : options_(options),
        checkpoint_(checkpoint),
        plan_(plan),
        writer_(writer),
        pool_(options.n_threads > 0 ? options.n_threads : UsableCores()),
        encoder_(pool_) {
    for (const PlannedTensor& tensor : plan.tensors) shapes_.push_back(BlockShapeOf(tensor, kBlockBytes));
  }

  // Fills the SHA-256 of every weight file. False when cancelled.
  Result<bool> Run(std::vector<BundleFile>& weights) {
    std::vector<SourceFile> files = FilesToRead(checkpoint_, weights, plan_, shapes_, writer_);
    std::vector<size_t> number;  // of each file that is read, in `weights`
    std::vector<SourceFile> unread;
    uint64_t total = 0;
    uint64_t done = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      total += files[i].bytes;
      const std::string* known = writer_.FinishedSource(weights[i].name);
      if (known != nullptr && files[i].wanted.empty()) {
        weights[i].sha256 = *known;
        done += files[i].bytes;
        continue;
      }
      number.push_back(i);
      unread.push_back(std::move(files[i]));
    }
    MINICPM_TRY(FinishEmpty());
    SourceReader reader(std::move(unread));
    while (true) {
      if (Cancelled(options_)) {
        MINICPM_TRY(writer_.Sync());
        return false;
      }
      MINICPM_ASSIGN(std::optional<SourceReader::Block> block, reader.Next());
      if (!block.has_value()) return true;
      if (block->data.empty()) {
        BundleFile& file = weights[number[block->file]];
        file.sha256 = block->sha256;
        MINICPM_TRY(writer_.FinishSource(file.name, file.sha256));
      } else {
        MINICPM_TRY(Take(*block));
        reader.Recycle(std::move(block->data));
      }
      if (options_.listener != nullptr) {
        options_.listener->OnProgress("converting", std::min(total, done + reader.bytes_read()), total);
      }
    }
  }

 private:
  // Tensors without elements have no block that would finish them.
  Status FinishEmpty() {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (writer_.layout().tensors[i].bytes != 0 || writer_.Finished(i) != nullptr) continue;
      MINICPM_TRY(writer_.Finish(i, {Hex(Sha256().Finish()), {}}));
    }
    return {};
  }

  Status Take(const SourceReader::Block& block) {
    const PlannedTensor& tensor = plan_.tensors[block.tensor];
    const BlockShape& shape = shapes_[block.tensor];
    if (block.offset == 0) {
      hash_.emplace();
      stats_ = {};
      written_ = 0;
    }
    const auto first = static_cast<int64_t>(block.offset / shape.source_row_bytes);
    const auto n = static_cast<int64_t>(block.data.size() / shape.source_row_bytes);
    MINICPM_ASSIGN(const std::span<const std::byte> bytes,
                   encoder_.Encode(tensor, shape, first, n, block.data, stats_));
    hash_->Update(bytes);
    MINICPM_TRY(writer_.Write(block.tensor, written_, bytes));
    written_ += bytes.size();
    if (written_ < writer_.layout().tensors[block.tensor].bytes) return {};
    return writer_.Finish(block.tensor, {Hex(hash_->Finish()), stats_});
  }

  const ConvertOptions& options_;
  const Checkpoint& checkpoint_;
  const Plan& plan_;
  BundleWriter& writer_;
  ThreadPool pool_;
  Encoder encoder_;
  std::vector<BlockShape> shapes_;
  // Of the tensor that is being written.
  std::optional<Sha256> hash_;
  quant::EncodeStats stats_;
  uint64_t written_ = 0;
};

Result<Plan> PlanFor(const Checkpoint& checkpoint, const ModelConfig& config, const RecipeOptions& recipe) {
  std::vector<SourceTensor> source;
  for (const auto* entry : checkpoint.entries()) source.push_back({entry->name, entry->view.dtype, entry->view.shape});
  auto plan = MakePlan(config, source, recipe);
  if (!plan.has_value() && plan.error().code != ErrorCode::kInvalidArgument) {
    return Annotate(Printable(checkpoint.folder(), 4096), std::move(plan).error());
  }
  return plan;
}

}  // namespace

Result<FinishedBundle> ConvertCheckpoint(const ConvertOptions& options) {
  MINICPM_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(options.checkpoint));
  if (checkpoint.bundle() != nullptr) {
    return Fail(ErrorCode::kUnsupported,
                Printable(options.checkpoint, 4096) + ": is a bundle already, expected an official checkpoint");
  }
  MINICPM_ASSIGN(const ModelConfig config, ReadModelConfig(options.checkpoint));
  MINICPM_ASSIGN(const Plan plan, PlanFor(checkpoint, config, options.recipe));
  MINICPM_ASSIGN(WeightsLayout layout, LayOutWeights(plan.tensors));
  MINICPM_TRY(CheckFoldersApart(options.checkpoint, options.folder));
  MINICPM_ASSIGN(SourceListing listing, ListSource(checkpoint));

  BundleWriterOptions writer_options;
  writer_options.folder = options.folder;
  writer_options.restart = options.restart;
  writer_options.force = options.force;
  writer_options.created_utc = options.created_utc.empty() ? UtcNow() : options.created_utc;
  writer_options.sync_bytes = options.sync_bytes;
  writer_options.other_bytes = listing.other_bytes;
  const BundleIdentity identity = {options.tool, RecipeText(plan), listing.identity};
  MINICPM_ASSIGN(BundleWriter writer, BundleWriter::Open(writer_options, identity, plan.tensors, std::move(layout)));
  FinishedBundle stopped;
  stopped.cancelled = true;
  MINICPM_ASSIGN(const bool converted, Converter(options, checkpoint, plan, writer).Run(listing.weights));
  if (!converted) return stopped;

  FinishOptions finish;
  finish.sources = std::move(listing.weights);
  for (const std::string& name : listing.others) {
    MINICPM_TRY(CopyFile(options.checkpoint, writer.partial_folder(), name));
    MINICPM_ASSIGN(BundleFile file, HashFile(writer.partial_folder(), name, nullptr, nullptr));
    finish.sources.push_back(std::move(file));
  }
  finish.family = FamilyName(config.family);
  finish.tool = options.tool;
  finish.source = SourceName(options.checkpoint);
  finish.selftest = options.selftest;
  finish.n_threads = options.n_threads;
  finish.cancel = options.cancel;
  finish.listener = options.listener;
  return FinishBundle(writer, plan, finish);
}

}  // namespace minicpm
