// Finding, loading and checking a plugin. Not for calling it.
#include "video/media_plugin.h"

#include <utility>

#include "video/media_plugin_impl.h"

namespace minicpm {
namespace {

constexpr const char* kFile = "minicpm-media-ffmpeg.so";

}  // namespace

MediaPlugin::MediaPlugin(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MediaPlugin::~MediaPlugin() = default;

const std::string& MediaPlugin::description() const { return impl_->description; }

Result<std::shared_ptr<const MediaPlugin>> MediaPlugin::Load(const std::string& path) {
  MINICPM_ASSIGN(SharedLibrary library, SharedLibrary::Open(path));
  MINICPM_ASSIGN(void* symbol, library.Symbol(MINICPM_MEDIA_ENTRY));
  const auto entry = reinterpret_cast<MinicpmMediaEntry>(symbol);
  const MinicpmMediaApi* api = entry(MINICPM_MEDIA_ABI);
  if (api == nullptr || api->abi != MINICPM_MEDIA_ABI || api->bytes != sizeof(MinicpmMediaApi)) {
    return Fail(ErrorCode::kUnsupported, Printable(path, 300) + ": the media plugin has interface version " +
                                             (api == nullptr ? "unknown" : std::to_string(api->abi)) +
                                             ", this program needs version " + std::to_string(MINICPM_MEDIA_ABI) +
                                             " (plugin and program come from one build)");
  }
  auto impl = std::make_unique<Impl>(Impl{std::move(library), api, Printable(api->description(), 200)});
  return std::shared_ptr<const MediaPlugin>(new MediaPlugin(std::move(impl)));
}

Result<std::shared_ptr<const MediaPlugin>> MediaPlugin::Find() {
  MINICPM_ASSIGN(const std::string folder, ProgramFolder());
  for (const std::string& place : {folder + "/" + kFile, folder + "/../lib/minicpm/" + kFile}) {
    auto plugin = Load(place);
    if (plugin.has_value() || plugin.error().code != ErrorCode::kNotFound) return plugin;
  }
  return nullptr;
}

std::unexpected<Error> PluginError(const std::string& safe_name, int32_t code, const MinicpmMediaError& error) {
  const std::string_view bytes(error.message, sizeof error.message);
  const std::string text = safe_name + ": " + Printable(bytes.substr(0, bytes.find('\0')), sizeof error.message);
  switch (code) {
    case MINICPM_MEDIA_CORRUPT:
      return Fail(ErrorCode::kCorrupt, text);
    case MINICPM_MEDIA_UNSUPPORTED:
      return Fail(ErrorCode::kUnsupported, text);
    case MINICPM_MEDIA_TOO_LARGE:
      return Fail(ErrorCode::kResourceExhausted, text);
    case MINICPM_MEDIA_NOT_FOUND:
      return Fail(ErrorCode::kNotFound, text);
    default:
      return Fail(ErrorCode::kIo, text);
  }
}

}  // namespace minicpm
