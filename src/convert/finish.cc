// Implementation of finish.h.
#include "convert/finish.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "convert/selftest.h"
#include "engine/digest.h"
#include "os/atomic_file.h"
#include "store/json.h"

namespace minicpm {
namespace {

constexpr size_t kHashBlock = size_t{4} << 20;
constexpr const char* kJournalName = "journal.jsonl";

bool Cancelled(const std::atomic<bool>* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Every file of the bundle besides weights, manifest and journal, sorted by name.
Result<std::vector<std::string>> OtherFiles(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error) || error) continue;
    const std::string name = fs::relative(it->path(), folder, error).generic_string();
    if (name != kBundleWeightsName && name != kBundleFileName && name != kJournalName) names.push_back(name);
  }
  if (error) return Fail(ErrorCode::kIo, Printable(folder, 4096) + ": cannot be listed: " + error.message());
  std::ranges::sort(names);
  return names;
}

void SumGroup(const Plan& plan, const BundleWriter& writer, BundleGroup& group) {
  quant::EncodeStats sum;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlannedTensor& tensor = plan.tensors[i];
    if (tensor.group != group.name) continue;
    ++group.n_tensors;
    group.n_parameters += tensor.shape.elements();
    group.n_bytes += writer.layout().tensors[i].bytes;
    sum.error += writer.Finished(i)->stats.error;
    sum.energy += writer.Finished(i)->stats.energy;
  }
  if (sum.energy > 0) group.relative_rms = std::sqrt(sum.error / sum.energy);
}

Status AddFiles(const std::string& folder, BundleManifest& m) {
  m.files.clear();
  MINICPM_ASSIGN(const std::vector<std::string> names, OtherFiles(folder));
  for (const std::string& name : names) {
    MINICPM_ASSIGN(BundleFile file, HashFile(folder, name, nullptr, nullptr));
    m.files.push_back(std::move(file));
  }
  return {};
}

Status WriteTextFile(const std::string& path, std::string_view text) {
  MINICPM_ASSIGN(AtomicFile file, AtomicFile::Create(path));
  MINICPM_TRY(file.Write(text));
  return file.Commit();
}

Status WriteManifest(const std::string& folder, const BundleManifest& m) {
  const std::string text = SealedManifest(m);
  if (text.size() > JsonObject::kMaxBytes) {
    return Fail(ErrorCode::kResourceExhausted, "too many tensors: bundle.json would have " +
                                                   std::to_string(text.size()) + " bytes, at most " +
                                                   std::to_string(JsonObject::kMaxBytes) + " are read");
  }
  return WriteTextFile(folder + "/" + kBundleFileName, text);
}

BundleManifest Describe(const BundleWriter& writer, const Plan& plan, const FinishOptions& options) {
  BundleManifest m;
  m.family = options.family;
  m.tool = options.tool;
  m.created_utc = writer.created_utc();
  m.synthetic = options.synthetic;
  m.source = options.source;
  m.sources = options.sources;
  m.recipe = plan.recipe;
  m.groups = plan.groups;
  for (BundleGroup& group : m.groups) SumGroup(plan, writer, group);
  m.dropped = plan.dropped;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlannedTensor& t = plan.tensors[i];
    m.tensors.push_back(
        {t.name, t.dtype, t.shape, t.group, writer.layout().tensors[i].bytes, writer.Finished(i)->sha256});
  }
  Sha256 header;
  header.Update(std::as_bytes(std::span(writer.layout().header)));
  m.header_sha256 = Hex(header.Finish());
  return m;
}

}  // namespace

std::string UtcNow() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string SealedManifest(const BundleManifest& manifest) {
  std::string text = WriteBundleManifest(manifest);
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(text)));
  const std::string digest = Hex(hash.Finish());
  text.replace(*SealPosition(text), digest.size(), digest);
  return text;
}

Result<BundleFile> HashFile(const std::string& folder, const std::string& name, const std::atomic<bool>* cancel,
                            ConvertListener* listener) {
  MINICPM_ASSIGN(const PositionedFile file, PositionedFile::OpenRead(folder + "/" + name));
  MINICPM_ASSIGN(const PositionedFile::Facts facts, file.Stat());
  file.ExpectSequentialReads();
  std::vector<std::byte> block(std::min<uint64_t>(facts.bytes, kHashBlock));
  Sha256 hash;
  for (uint64_t at = 0; at < facts.bytes; at += block.size()) {
    if (Cancelled(cancel)) return BundleFile{name, facts.bytes, ""};
    const std::span<std::byte> piece(block.data(), std::min<uint64_t>(block.size(), facts.bytes - at));
    MINICPM_TRY(file.ReadAt(at, piece));
    hash.Update(piece);
    if (listener != nullptr) listener->OnProgress("hashing", at + piece.size(), facts.bytes);
  }
  return BundleFile{name, facts.bytes, Hex(hash.Finish())};
}

Result<FinishedBundle> FinishBundle(BundleWriter& writer, const Plan& plan, const FinishOptions& options) {
  const std::string& folder = writer.partial_folder();
  MINICPM_TRY(writer.Sync());
  FinishedBundle done;
  done.manifest = Describe(writer, plan, options);
  BundleManifest& m = done.manifest;
  MINICPM_ASSIGN(m.weights, HashFile(folder, kBundleWeightsName, options.cancel, options.listener));
  if (Cancelled(options.cancel)) {
    done.cancelled = true;
    return done;
  }
  std::error_code ignored;
  std::filesystem::remove(folder + "/" + kSelfTestFileName, ignored);
  if (options.selftest) {
    MINICPM_TRY(AddFiles(folder, m));
    MINICPM_TRY(WriteManifest(folder, m));  // for loading the model; written again below
    if (options.listener != nullptr) options.listener->OnProgress("self-test", 0, 0);
    MINICPM_ASSIGN(const std::optional<std::string> text, MakeSelfTest(folder, options.n_threads, options.cancel));
    if (!text.has_value()) {
      done.cancelled = true;
      return done;
    }
    MINICPM_TRY(WriteTextFile(folder + "/" + kSelfTestFileName, *text));
  }
  MINICPM_TRY(AddFiles(folder, m));
  MINICPM_TRY(WriteManifest(folder, m));
  done.bytes = m.weights.bytes + std::filesystem::file_size(folder + "/" + kBundleFileName, ignored);
  for (const BundleFile& file : m.files) done.bytes += file.bytes;
  MINICPM_TRY(writer.Commit());
  return done;
}

}  // namespace minicpm
