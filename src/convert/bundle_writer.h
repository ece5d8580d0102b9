// BundleWriter: a bundle under construction. It grows in FOLDER.partial together with a journal of what is finished, so
// that a killed conversion goes on where it was, and takes its name at the end. Not for what the tensors hold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "convert/recipe.h"
#include "convert/weights_layout.h"
#include "os/positioned_file.h"
#include "quant/packed.h"

namespace minicpm {

// What must be the same for a conversion to go on. Texts, compared as they are; kept in the journal.
struct BundleIdentity {
  std::string tool;
  std::string recipe;
  std::string sources;
};

struct FinishedTensor {
  std::string sha256;
  quant::EncodeStats stats;
};

struct BundleWriterOptions {
  std::string folder;
  bool restart = false;  // throw an unfinished bundle away instead of going on with it
  bool force = false;    // replace a bundle that is there, once the new one is complete
  std::string created_utc;
  uint64_t other_bytes = 0;                  // room that files besides the weights will take
  uint64_t sync_bytes = uint64_t{32} << 20;  // weights written between two entries of the journal
};

// Move-only. Threads: none. Without Commit() the partial folder stays, for going on later.
class BundleWriter {
 public:
  // Errors: kInvalidArgument when the folder exists, when an unfinished bundle has another identity or is being written
  // by another process; kResourceExhausted when the disk has too little room (with both numbers).
  static Result<BundleWriter> Open(const BundleWriterOptions& options, const BundleIdentity& identity,
                                   std::span<const PlannedTensor> tensors, WeightsLayout layout);
  BundleWriter(BundleWriter&&) noexcept = default;

  const std::string& partial_folder() const { return partial_; }
  const std::string& created_utc() const { return created_utc_; }
  const WeightsLayout& layout() const { return layout_; }
  bool resumed() const { return resumed_; }

  // Finished earlier or now; null when not.
  const FinishedTensor* Finished(size_t tensor) const;
  // SHA-256 of a source file that was read completely; null when not.
  const std::string* FinishedSource(const std::string& name) const;

  // Bytes of a tensor, from `offset` inside it.
  Status Write(size_t tensor, uint64_t offset, std::span<const std::byte> bytes);
  Status Finish(size_t tensor, FinishedTensor result);
  Status FinishSource(const std::string& name, const std::string& sha256);
  // Brings everything finished so far to the disk.
  Status Sync();
  // Requires: all tensors finished, all other files written. Removes the journal and gives the folder its name.
  Status Commit();

 private:
  BundleWriter() = default;
  Status OpenPartial(const BundleWriterOptions& options, const BundleIdentity& identity);
  Status ReadJournal(const std::string& text, const BundleIdentity& identity);
  Status ReadEntry(std::string_view line);
  Status StartJournal(const BundleIdentity& identity);
  Status PrepareWeights(const BundleWriterOptions& options);

  std::string folder_, partial_, created_utc_;
  bool force_ = false;
  bool resumed_ = false;
  uint64_t sync_bytes_ = 0;
  WeightsLayout layout_;
  std::vector<std::string> names_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<std::optional<FinishedTensor>> finished_;
  std::map<std::string, std::string, std::less<>> finished_sources_;
  PositionedFile weights_;
  PositionedFile journal_;
  uint64_t journal_bytes_ = 0;
  std::string pending_;  // entries whose data may not be on the disk yet
  uint64_t unsynced_bytes_ = 0;
};

}  // namespace minicpm
