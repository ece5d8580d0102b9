// Implementation of source_files.h.
#include "convert/source_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "engine/digest.h"
#include "os/atomic_file.h"
#include "os/positioned_file.h"

namespace minicpm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightEndings[] = {".safetensors", ".bin", ".pt",      ".pth", ".ckpt",
                                          ".gguf",        ".h5",  ".msgpack", ".onnx"};
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kReserved[] = {kBundleFileName, kBundleWeightsName, kSelfTestFileName, kAccuracyFileName,
                                     "journal.jsonl"};
constexpr size_t kMaxFiles = 10000;
constexpr size_t kCopyBlock = size_t{1} << 20;
constexpr uint64_t kHeadBytes = uint64_t{1} << 20;

// Tensors' names and places stand in the first bytes: a file of the same size and time but another head is another.
Result<std::string> HeadDigest(const PositionedFile& file, uint64_t bytes) {
  std::vector<std::byte> head(std::min(bytes, kHeadBytes));
  MINICPM_TRY(file.ReadAt(0, head));
  Sha256 hash;
  hash.Update(head);
  return Hex(hash.Finish());
}

Status AddWeights(const Checkpoint& checkpoint, SourceListing& listing) {
  for (const std::string& path : checkpoint.files()) {
    MINICPM_ASSIGN(const PositionedFile file, PositionedFile::OpenRead(path));
    MINICPM_ASSIGN(const PositionedFile::Facts facts, file.Stat());
    const std::string name = fs::path(path).filename().string();
    listing.weights.push_back({name, facts.bytes, ""});
    MINICPM_ASSIGN(const std::string head, HeadDigest(file, facts.bytes));
    listing.identity += (listing.identity.empty() ? "" : ", ") + name + " of " + std::to_string(facts.bytes) +
                        " bytes from " + std::to_string(facts.modified_ns) + " " + head.substr(0, 16);
  }
  return {};
}

bool IsCopied(const std::string& name) {
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  return !std::ranges::any_of(kWeightEndings, ends) && name != kIndexName && IsInnerPath(name);
}

Status AddOthers(const std::string& folder, SourceListing& listing) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) {
      it.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;  // follows links: caches of published models consist of them
    const std::string name = it->path().lexically_relative(folder).generic_string();
    if (!IsCopied(name)) continue;
    for (const char* reserved : kReserved) {
      if (name == reserved) {
        return Fail(ErrorCode::kInvalidArgument,
                    Printable(folder, 4096) + ": has a file " + name + ", a name that bundles use themselves");
      }
    }
    if (listing.others.size() >= kMaxFiles) {
      return Fail(ErrorCode::kResourceExhausted, Printable(folder, 4096) + ": has more than " +
                                                     std::to_string(kMaxFiles) + " files besides the weights");
    }
    listing.others.push_back(name);
    listing.other_bytes += it->file_size(ignored);
  }
  if (error) return Fail(ErrorCode::kIo, Printable(folder, 4096) + ": cannot be listed: " + error.message());
  std::ranges::sort(listing.others);
  return {};
}

}  // namespace

Result<SourceListing> ListSource(const Checkpoint& checkpoint) {
  SourceListing listing;
  MINICPM_TRY(AddWeights(checkpoint, listing));
  MINICPM_TRY(AddOthers(checkpoint.folder(), listing));
  return listing;
}

Status CopyFile(const std::string& from_folder, const std::string& to_folder, const std::string& name) {
  const fs::path to = fs::path(to_folder) / name;
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error) return Fail(ErrorCode::kIo, Printable(to.string(), 4096) + ": cannot be created: " + error.message());
  MINICPM_ASSIGN(const PositionedFile in, PositionedFile::OpenRead((fs::path(from_folder) / name).string()));
  MINICPM_ASSIGN(const PositionedFile::Facts facts, in.Stat());
  MINICPM_ASSIGN(AtomicFile out, AtomicFile::Create(to.string()));
  std::vector<std::byte> block(std::min<uint64_t>(kCopyBlock, facts.bytes));
  for (uint64_t at = 0; at < facts.bytes; at += block.size()) {
    const std::span<std::byte> piece(block.data(), std::min<uint64_t>(block.size(), facts.bytes - at));
    MINICPM_TRY(in.ReadAt(at, piece));
    MINICPM_TRY(out.Write(piece));
  }
  return out.Commit();
}

Status CheckFoldersApart(const std::string& checkpoint, const std::string& bundle) {
  std::error_code error;
  const fs::path outer = fs::weakly_canonical(checkpoint, error);
  const fs::path inner = fs::weakly_canonical(fs::absolute(bundle, error), error);
  if (error) return {};
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  if (end != outer.end()) return {};
  return Fail(ErrorCode::kInvalidArgument, Printable(bundle, 4096) + ": lies inside the checkpoint's folder " +
                                               Printable(checkpoint, 4096) + ", expected another place");
}

std::string SourceName(const std::string& checkpoint) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(checkpoint, error), error);
  return Printable(path.filename().string(), 400);
}

}  // namespace minicpm
