// Implementation of bundle_writer.h. The journal is one JSON object per line; the first holds the identity. An entry is
// written after the data it speaks of has reached the disk, so whatever the journal says is true after any crash.
#include "convert/bundle_writer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "os/mapped_file.h"
#include "store/bundle_manifest.h"
#include "store/json.h"

namespace minicpm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kJournalName = "journal.jsonl";
constexpr size_t kMaxJournalBytes = size_t{256} << 20;
constexpr int kJournalVersion = 1;

std::string Quote(const std::string& path) { return Printable(path, 4096); }

std::unexpected<Error> Usage(const std::string& what) { return Fail(ErrorCode::kInvalidArgument, what); }

std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

bool NameTaken(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

// A folder that may be replaced: a bundle, or one without anything in it. Never somebody's other files.
Status CheckReplaceable(const std::string& folder, bool force) {
  if (!NameTaken(folder)) return {};
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return Usage(Quote(folder) + ": exists and is not a folder");
  if (std::filesystem::is_empty(folder, ignored)) return {};
  if (!NameTaken(folder + "/" + kBundleFileName)) {
    return Usage(Quote(folder) + ": exists and is not a bundle, so it is not replaced");
  }
  if (!force) return Usage(Quote(folder) + ": exists already (--force replaces it once the new bundle is complete)");
  return {};
}

Status CheckSpace(const std::string& folder, uint64_t needed) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error || space.available >= needed) return {};
  return Fail(ErrorCode::kResourceExhausted, Quote(folder) + ": the bundle needs " + std::to_string(needed) +
                                                 " bytes more, but the disk has " + std::to_string(space.available) +
                                                 " free");
}

std::string TrimSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<BundleWriter> BundleWriter::Open(const BundleWriterOptions& options, const BundleIdentity& identity,
                                        std::span<const PlannedTensor> tensors, WeightsLayout layout) {
  if (options.folder.empty()) return Usage("the name of the bundle's folder is empty");
  BundleWriter writer;
  writer.folder_ = TrimSlashes(options.folder);
  writer.partial_ = writer.folder_ + ".partial";
  writer.force_ = options.force;
  writer.created_utc_ = options.created_utc;
  writer.sync_bytes_ = options.sync_bytes;
  writer.layout_ = std::move(layout);
  writer.finished_.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    writer.names_.push_back(tensors[i].name);
    writer.index_.emplace(tensors[i].name, i);
  }
  MINICPM_TRY(CheckReplaceable(writer.folder_, options.force));
  MINICPM_TRY(writer.OpenPartial(options, identity));
  MINICPM_TRY(writer.PrepareWeights(options));
  return writer;
}

Status BundleWriter::OpenPartial(const BundleWriterOptions& options, const BundleIdentity& identity) {
  const std::string journal_path = partial_ + "/" + kJournalName;
  std::error_code error;
  const bool existed = NameTaken(partial_);
  if (existed && !NameTaken(journal_path) && !std::filesystem::is_empty(partial_, error)) {
    return Usage(Quote(partial_) + ": exists, but is no unfinished bundle; move it away");
  }
  if (!existed && !std::filesystem::create_directory(partial_, error)) {
    return Fail(ErrorCode::kIo, Quote(partial_) + ": cannot be created: " + error.message());
  }
  MINICPM_ASSIGN(journal_, PositionedFile::OpenWrite(journal_path));
  MINICPM_ASSIGN(const bool locked, journal_.TryLock());
  if (!locked) return Usage(Quote(partial_) + ": another process is writing this bundle");
  if (options.restart) return StartJournal(identity);
  MINICPM_ASSIGN(const std::string text, ReadWholeFile(journal_path, kMaxJournalBytes));
  if (text.find('\n') == std::string::npos) return StartJournal(identity);  // not even the first line was finished
  return ReadJournal(text, identity);
}

Status BundleWriter::StartJournal(const BundleIdentity& identity) {
  MINICPM_TRY(journal_.Resize(0));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(partial_, error)) {
    if (entry.path().filename() == kJournalName) continue;
    std::filesystem::remove_all(entry.path(), error);
    if (error) return Fail(ErrorCode::kIo, Quote(entry.path().string()) + ": cannot be removed: " + error.message());
  }
  const std::string first = Line({{"journal", kJournalVersion},
                                  {"created_utc", created_utc_},
                                  {"tool", identity.tool},
                                  {"recipe", identity.recipe},
                                  {"sources", identity.sources}});
  MINICPM_TRY(journal_.WriteAt(0, first));
  journal_bytes_ = first.size();
  MINICPM_TRY(journal_.Sync());
  SyncFolder(partial_);
  return {};
}

Status BundleWriter::ReadJournal(const std::string& text, const BundleIdentity& identity) {
  const std::string_view whole(text);
  const size_t first_end = whole.find('\n');
  MINICPM_ASSIGN(const JsonObject first, JsonObject::Parse(whole.substr(0, first_end), journal_.path()));
  MINICPM_TRY(first.Int("journal", kJournalVersion, kJournalVersion));
  const std::pair<const char*, const std::string*> parts[] = {
      {"tool", &identity.tool}, {"recipe", &identity.recipe}, {"sources", &identity.sources}};
  for (const auto& [key, now] : parts) {
    MINICPM_ASSIGN(const std::string then, first.String(key));
    if (then == *now) continue;
    const bool brief = then.size() + now->size() < 800;
    return Usage(Quote(partial_) + ": was begun with other " +
                 (std::string_view(key) == "tool" ? "program" : std::string(key)) +
                 (brief ? " (" + Printable(then, 400) + ", now " + Printable(*now, 400) + ")" : "") +
                 "; --restart begins again");
  }
  MINICPM_ASSIGN(created_utc_, first.String("created_utc"));
  size_t begin = first_end + 1;
  for (size_t end = 0; (end = whole.find('\n', begin)) != whole.npos; begin = end + 1) {
    MINICPM_TRY(ReadEntry(whole.substr(begin, end - begin)));
  }
  journal_bytes_ = begin;  // a line that was cut by a crash is overwritten
  resumed_ = true;
  return journal_.Resize(begin);
}

Status BundleWriter::ReadEntry(std::string_view line) {
  MINICPM_ASSIGN(const JsonObject entry, JsonObject::Parse(line, journal_.path()));
  MINICPM_ASSIGN(const std::string sha256, entry.String("sha256"));
  if (entry.Has("source")) {
    MINICPM_ASSIGN(const std::string source, entry.String("source"));
    finished_sources_[source] = sha256;
    return {};
  }
  MINICPM_ASSIGN(const std::string name, entry.String("tensor"));
  const auto it = index_.find(name);
  if (it == index_.end()) return entry.Complain("tensor", "a tensor of this bundle");
  FinishedTensor finished;
  finished.sha256 = sha256;
  MINICPM_ASSIGN(finished.stats.error, entry.NumberOr("error", 0));
  MINICPM_ASSIGN(finished.stats.energy, entry.NumberOr("energy", 0));
  MINICPM_ASSIGN(finished.stats.n_limited, entry.IntOr("limited", 0, 0, INT64_MAX));
  finished_[it->second] = std::move(finished);
  return {};
}

Status BundleWriter::PrepareWeights(const BundleWriterOptions& options) {
  const std::string path = partial_ + "/" + kBundleWeightsName;
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  const uint64_t have = there ? std::filesystem::file_size(path, error) : 0;
  if (have != layout_.file_bytes || error) {
    // Nothing that the journal says can be true of a file of another size.
    std::fill(finished_.begin(), finished_.end(), std::nullopt);
    MINICPM_TRY(CheckSpace(partial_, layout_.file_bytes + options.other_bytes));
  }
  MINICPM_ASSIGN(weights_, PositionedFile::OpenWrite(path));
  MINICPM_TRY(weights_.Reserve(layout_.file_bytes));
  MINICPM_TRY(weights_.Resize(layout_.file_bytes));
  return weights_.WriteAt(0, layout_.header);
}

const FinishedTensor* BundleWriter::Finished(size_t tensor) const {
  return finished_[tensor].has_value() ? &*finished_[tensor] : nullptr;
}

const std::string* BundleWriter::FinishedSource(const std::string& name) const {
  const auto it = finished_sources_.find(name);
  return it == finished_sources_.end() ? nullptr : &it->second;
}

Status BundleWriter::Write(size_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  unsynced_bytes_ += bytes.size();
  return weights_.WriteAt(layout_.tensors[tensor].offset + offset, bytes);
}

Status BundleWriter::Finish(size_t tensor, FinishedTensor result) {
  Json line = {{"tensor", names_[tensor]}, {"sha256", result.sha256}};
  if (result.stats.energy > 0) {
    line["error"] = result.stats.error;
    line["energy"] = result.stats.energy;
    line["limited"] = result.stats.n_limited;
  }
  pending_ += Line(line);
  finished_[tensor] = std::move(result);
  return unsynced_bytes_ >= sync_bytes_ ? Sync() : Status();
}

Status BundleWriter::FinishSource(const std::string& name, const std::string& sha256) {
  pending_ += Line({{"source", name}, {"sha256", sha256}});
  finished_sources_[name] = sha256;
  return Sync();
}

Status BundleWriter::Sync() {
  if (pending_.empty()) return {};
  MINICPM_TRY(weights_.Sync());
  MINICPM_TRY(journal_.WriteAt(journal_bytes_, pending_));
  journal_bytes_ += pending_.size();
  pending_.clear();
  unsynced_bytes_ = 0;
  return journal_.Sync();
}

Status BundleWriter::Commit() {
  namespace fs = std::filesystem;
  MINICPM_TRY(weights_.Sync());
  MINICPM_TRY(CheckReplaceable(folder_, force_));
  std::error_code error;
  const auto complain = [&](const std::string& path, const char* what) {
    return Fail(ErrorCode::kIo, Quote(path) + ": " + what + ": " + error.message());
  };
  SyncFolder(partial_);
  if (!fs::remove(partial_ + "/" + kJournalName, error) && error)
    return complain(partial_, "cannot remove the journal");
  std::string old;
  if (NameTaken(folder_)) {
    for (int n = 0; old.empty() || NameTaken(old); ++n) old = folder_ + ".replaced-" + std::to_string(n);
    if (fs::rename(folder_, old, error); error) return complain(folder_, "cannot be moved away");
  }
  fs::rename(partial_, folder_, error);
  if (error) {
    const auto failure = complain(folder_, "cannot give the bundle its name");
    if (!old.empty()) fs::rename(old, folder_, error);
    return failure;
  }
  const fs::path parent = fs::path(folder_).parent_path();
  SyncFolder(parent.empty() ? "." : parent.string());
  if (!old.empty()) fs::remove_all(old, error);
  return {};
}

}  // namespace minicpm
