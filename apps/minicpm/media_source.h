// Media by the address they have in a messages file: a path, a file:// URL or a data: URL. Never from the network.
// Not for decoding them (media_loader.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace minicpm::cli {

// Strict base64 (RFC 4648, section 4): padding required, no line breaks.
Result<std::vector<std::byte>> DecodeBase64(std::string_view text);

// Where a medium lies. Either a path or bytes.
struct MediaSource {
  std::string path;              // absolute or relative to the working directory
  std::vector<std::byte> bytes;  // when `path` is empty
};
// Plain paths and file: URLs are relative to `base_folder` ("" = the working directory).
// Errors: kUnsupported for http(s) and other schemes, kCorrupt for a broken data: or file: URL.
Result<MediaSource> ResolveMediaUrl(std::string_view url, const std::string& base_folder);

}  // namespace minicpm::cli
