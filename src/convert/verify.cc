// Implementation of verify.h. Every byte of the weights file belongs to its header, to a tensor or to a pad; these are
// cut into pieces that threads take one by one, the largest first.
#include "convert/verify.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "engine/digest.h"
#include "os/clock.h"
#include "os/mapped_file.h"
#include "os/thread_pool.h"
#include "quant/packed.h"
#include "store/checkpoint.h"
#include "store/json.h"
#include "store/safetensors.h"

namespace minicpm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestDigits = 64;
constexpr size_t kHashPiece = size_t{1} << 20;
// What the engine reads when it is there: a file of such a name that the manifest does not list changes the model.
constexpr const char* kReadByEngine[] = {
    "config.json",        "preprocessor_config.json", "generation_config.json",
    "tokenizer.json",     "tokenizer_config.json",    "vocab.json",
    "merges.txt",         "added_tokens.json",        "chat_template.jinja",
    "chat_template.json", "model.safetensors",        "model.safetensors.index.json",
    kSelfTestFileName};

std::string DigestOf(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return Hex(hash.Finish());
}

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options)
      : options_(options), pool_(options.n_threads > 0 ? options.n_threads : UsableCores()) {}

  Result<VerifyReport> Run() {
    MINICPM_TRY(ReadManifest());
    if (manifest_.has_value()) {
      const double start_ms = NowMs();
      Weights();
      Files();
      Unlisted();
      report_.hash_ms = NowMs() - start_ms;
      if (!Cancelled()) SelfTest();
    }
    report_.cancelled = Cancelled();
    return std::move(report_);
  }

 private:
  bool Cancelled() const { return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed); }
  std::string Path(const std::string& name) const { return options_.folder + "/" + name; }

  void Problem(const std::string& file, const std::string& tensor, std::string what) {
    const std::lock_guard lock(mutex_);
    report_.problems.push_back({file, tensor, std::move(what)});
  }
  void FileProblem(const std::string& file, const std::string& what) {
    Problem(file, "", Printable(Path(file), 4096) + ": " + what);
  }

  Status ReadManifest() {
    std::error_code error;
    if (!fs::is_directory(options_.folder, error)) {
      return Fail(ErrorCode::kNotFound, Printable(options_.folder, 4096) + ": no such folder, expected a bundle");
    }
    auto text = ReadWholeFile(Path(kBundleFileName), JsonObject::kMaxBytes);
    if (!text.has_value() && text.error().code == ErrorCode::kNotFound) {
      return Fail(ErrorCode::kNotFound, Printable(options_.folder, 4096) +
                                            ": has no bundle.json, expected a bundle (`minicpm convert` makes one)");
    }
    if (!text.has_value()) return std::unexpected(std::move(text).error());
    report_.n_files = 1;
    report_.n_bytes = text->size();
    CheckSeal(*text);
    auto manifest = ParseBundleManifest(*text, Path(kBundleFileName));
    if (manifest.has_value()) {
      manifest_ = std::move(*manifest);
    } else if (report_.problems.empty()) {
      return std::unexpected(std::move(manifest).error());  // whole, but not for this version
    } else {
      Problem(kBundleFileName, "", manifest.error().message);
    }
    return {};
  }

  void CheckSeal(std::string text) {
    const auto at = SealPosition(text);
    if (!at.has_value()) return FileProblem(kBundleFileName, "does not end with the hash of its content, as it must");
    const std::string found = text.substr(*at, kDigestDigits);
    text.replace(*at, kDigestDigits, kDigestDigits, '0');
    if (DigestOf(std::as_bytes(std::span(text))) != found) {
      FileProblem(kBundleFileName, "was changed: its content does not have the SHA-256 that stands at its end");
    }
  }

  // A part of the weights file.
  struct Piece {
    const BundleTensor* tensor;  // null for the header and for pads
    std::string pad;             // name of a pad
    std::span<const std::byte> bytes;
  };

  void Weights() {
    ++report_.n_files;
    auto mapped = MappedFile::Open(Path(kBundleWeightsName));
    if (!mapped.has_value()) return Problem(kBundleWeightsName, "", mapped.error().message);
    const std::span<const std::byte> bytes = mapped->bytes();
    auto file = SafetensorsFile::Parse(bytes, Path(kBundleWeightsName));
    if (!file.has_value()) return Problem(kBundleWeightsName, "", file.error().message);
    std::vector<Piece> pieces;
    const std::byte* data_begin = bytes.data() + bytes.size();
    if (!file->entries().empty()) data_begin = static_cast<const std::byte*>(file->entries().front().view.data);
    pieces.push_back({nullptr, "", {bytes.data(), data_begin}});
    std::map<std::string_view, const BundleTensor*> listed;
    for (const BundleTensor& tensor : manifest_->tensors) listed.emplace(tensor.name, &tensor);
    for (const auto& entry : file->entries()) {
      const std::span<const std::byte> data(static_cast<const std::byte*>(entry.view.data), entry.view.bytes());
      const auto it = listed.find(entry.name);
      if (entry.name.starts_with(kPadPrefix)) {
        pieces.push_back({nullptr, entry.name, data});
      } else if (it == listed.end()) {
        Problem(kBundleWeightsName, entry.name, NameOfTensor(entry.name) + " is not listed in bundle.json");
      } else {
        if (data.size() == it->second->stored_bytes) pieces.push_back({it->second, "", data});
        if (data.size() != it->second->stored_bytes) {
          Problem(kBundleWeightsName, entry.name,
                  NameOfTensor(entry.name) + " has " + std::to_string(data.size()) + " bytes, expected " +
                      std::to_string(it->second->stored_bytes));
        }
        listed.erase(it);
      }
    }
    for (const auto& [name, tensor] : listed) {
      Problem(kBundleWeightsName, tensor->name, NameOfTensor(tensor->name) + " is missing");
    }
    CheckPieces(std::move(pieces));
  }

  std::string NameOfTensor(const std::string& name) const {
    return Printable(Path(kBundleWeightsName), 4096) + ": tensor \"" + Printable(name) + "\"";
  }

  void CheckPieces(std::vector<Piece> pieces) {
    std::ranges::sort(pieces, std::greater<>(), [](const Piece& piece) { return piece.bytes.size(); });
    uint64_t total = 0;
    for (const Piece& piece : pieces) total += piece.bytes.size();
    std::atomic<uint64_t> done = 0;
    pool_.ParallelFor(static_cast<int64_t>(pieces.size()), [&](int64_t i, int thread) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      if (Cancelled()) return;
      CheckPiece(piece);
      done += piece.bytes.size();
      // Thread 0 is the caller's.
      if (thread == 0 && options_.listener != nullptr) options_.listener->OnProgress("checking", done, total);
    });
    report_.n_bytes += done;
    for (const Piece& piece : pieces) report_.n_tensors += piece.tensor != nullptr ? 1 : 0;
    // Threads find problems in any order.
    std::ranges::sort(report_.problems, {}, &VerifyProblem::what);
  }

  void CheckPiece(const Piece& piece) {
    if (piece.tensor == nullptr && !piece.pad.empty()) {
      if (std::ranges::any_of(piece.bytes, [](std::byte b) { return b != std::byte{0}; })) {
        Problem(kBundleWeightsName, piece.pad, NameOfTensor(piece.pad) + " must hold zeros only");
      }
      return;
    }
    const std::string found = Digest(piece.bytes);
    if (Cancelled()) return;
    if (piece.tensor == nullptr) {
      if (found != manifest_->header_sha256) {
        FileProblem(kBundleWeightsName,
                    "its header was changed: SHA-256 is " + found + ", expected " + manifest_->header_sha256);
      }
      return;
    }
    const BundleTensor& tensor = *piece.tensor;
    if (found != tensor.sha256) {
      return Problem(kBundleWeightsName, tensor.name,
                     NameOfTensor(tensor.name) + " was changed: SHA-256 is " + found + ", expected " + tensor.sha256);
    }
    if (!IsPacked(tensor.dtype)) return;
    if (const Status kept = quant::CheckPacked({piece.bytes.data(), tensor.dtype, tensor.shape}); !kept.has_value()) {
      Problem(kBundleWeightsName, tensor.name, NameOfTensor(tensor.name) + ", " + kept.error().message);
    }
  }

  // In pieces, so that Ctrl-C does not wait for a large tensor.
  std::string Digest(std::span<const std::byte> bytes) const {
    Sha256 hash;
    for (size_t at = 0; at < bytes.size() && !Cancelled(); at += kHashPiece) {
      hash.Update(bytes.subspan(at, std::min(kHashPiece, bytes.size() - at)));
    }
    return Hex(hash.Finish());
  }

  void Files() {
    for (const BundleFile& expected : manifest_->files) {
      if (Cancelled()) return;
      ++report_.n_files;
      const auto found = HashFile(options_.folder, expected.name, options_.cancel, nullptr);
      if (Cancelled()) return;
      if (!found.has_value()) {
        Problem(expected.name, "", found.error().message);
        continue;
      }
      report_.n_bytes += found->bytes;
      if (found->bytes != expected.bytes) {
        FileProblem(expected.name,
                    "has " + std::to_string(found->bytes) + " bytes, expected " + std::to_string(expected.bytes));
      } else if (found->sha256 != expected.sha256) {
        FileProblem(expected.name, "was changed: SHA-256 is " + found->sha256 + ", expected " + expected.sha256);
      }
    }
  }

  void Unlisted() {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(options_.folder, error)) {
      const std::string name = entry.path().filename().string();
      if (name == kBundleFileName || name == kBundleWeightsName || name == kAccuracyFileName) continue;
      const auto is_it = [&](const BundleFile& file) { return file.name == name || file.name.starts_with(name + "/"); };
      if (std::ranges::any_of(manifest_->files, is_it)) continue;
      if (std::ranges::find(kReadByEngine, name) != std::end(kReadByEngine)) {
        FileProblem(name, "is not listed in bundle.json, but would be read");
      } else {
        report_.notes.push_back(Printable(Path(name), 4096) + " is not part of the bundle");
      }
    }
    std::ranges::sort(report_.notes);
  }

  void SelfTest() {
    std::error_code error;
    report_.has_selftest = fs::exists(Path(kSelfTestFileName), error);
    // A model that is not what it was need not be run.
    if (!report_.has_selftest || !options_.selftest || !report_.problems.empty()) return;
    if (options_.listener != nullptr) options_.listener->OnProgress("self-test", 0, 0);
    const double start_ms = NowMs();
    auto result = RunSelfTest(options_.folder, options_.n_threads, options_.isa, options_.cancel);
    report_.selftest_ms = NowMs() - start_ms;
    if (!result.has_value()) return Problem(kSelfTestFileName, "", result.error().message);
    for (const std::string& mismatch : result->mismatches) FileProblem(kSelfTestFileName, mismatch);
    report_.selftest = std::move(*result);
  }

  const VerifyOptions& options_;
  ThreadPool pool_;
  std::mutex mutex_;
  std::optional<BundleManifest> manifest_;
  VerifyReport report_;
};

}  // namespace

Result<VerifyReport> VerifyBundle(const VerifyOptions& options) { return Verifier(options).Run(); }

}  // namespace minicpm
