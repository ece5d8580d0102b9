// Fuzzes the manifest of a bundle, and opening a bundle whose manifest and weights header are any text.
// Input: the manifest, a zero byte, the header of the weights file; without a zero byte only the manifest is read. Not
// for hashes: nothing here looks at them.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/status.h"
#include "quant/packed.h"
#include "store/bundle_manifest.h"
#include "store/checkpoint.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

void ReadManifest(std::string_view text) {
  const auto manifest = minicpm::ParseBundleManifest(text, "fuzz");
  if (!manifest.has_value()) {
    Require(manifest.error().message.starts_with("fuzz"));
    Require(minicpm::Printable(manifest.error().message, 1 << 20) == manifest.error().message);
    return;
  }
  // What was understood is written so that it is understood as the same again.
  const std::string written = minicpm::WriteBundleManifest(*manifest);
  Require(minicpm::SealPosition(written).has_value());
  const auto again = minicpm::ParseBundleManifest(written, "again");
  Require(again.has_value() && minicpm::WriteBundleManifest(*again) == written);
}

// A folder in memory where the system has one, made once and removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/bundle-XXXXXX");
    Require(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void Write(const char* name, std::string_view text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void OpenBundle(std::string_view manifest, std::string header) {
  static const Folder folder;
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string weights;
  for (int i = 0; i < 8; ++i) weights += static_cast<char>(header.size() >> (8 * i) & 0xff);
  weights += header;
  weights.resize(4096, '\x40');  // the seeds' header is made for this size
  folder.Write(minicpm::kBundleFileName, manifest);
  folder.Write(minicpm::kBundleWeightsName, weights);
  const auto bundle = minicpm::Checkpoint::Open(folder.path());
  if (!bundle.has_value()) return;
  for (const auto* entry : bundle->entries()) {
    const minicpm::Checkpoint::Place place = bundle->PlaceOf(entry->name);
    Require(place.offset + place.bytes <= weights.size());
    Require(!entry->name.starts_with(minicpm::kPadPrefix));
    if (minicpm::IsPacked(entry->view.dtype)) (void)minicpm::quant::CheckPacked(entry->view);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  const size_t zero = text.find('\0');
  const std::string_view manifest = text.substr(0, zero);
  ReadManifest(manifest);
  if (zero != text.npos) OpenBundle(manifest, std::string(text.substr(zero + 1)));
  return 0;
}
