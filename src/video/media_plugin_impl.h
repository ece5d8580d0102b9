// What this room sees of a loaded plugin: its functions, and its errors turned into ours. Internal to this room.
// Not for callers outside: see media_plugin.h.
#pragma once

#include <string>

#include "os/shared_library.h"
#include "video/media_plugin.h"
#include "video/media_plugin_abi.h"

namespace minicpm {

struct MediaPlugin::Impl {
  SharedLibrary library;
  const MinicpmMediaApi* api;
  std::string description;
};

// "clip.mp4: <the plugin's sentence>". Requires: `code` is neither DONE nor END.
std::unexpected<Error> PluginError(const std::string& safe_name, int32_t code, const MinicpmMediaError& error);

}  // namespace minicpm
