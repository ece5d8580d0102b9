// Pictures by the address they have in a messages file: a path, a file:// URL or a data: URL. Never from the network.
// Not for decoding pixels (src/image).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/prompt.h"

namespace minicpm::cli {

// Strict base64 (RFC 4648, section 4): padding required, no line breaks.
Result<std::vector<std::byte>> DecodeBase64(std::string_view text);

// Where a picture lies. Either a path or bytes.
struct PictureSource {
  std::string path;              // absolute or relative to the working directory
  std::vector<std::byte> bytes;  // when `path` is empty
};
// Plain paths and file: URLs are relative to `base_folder` ("" = the working directory).
// Errors: kUnsupported for http(s) and other schemes, kCorrupt for a broken data: or file: URL.
Result<PictureSource> ResolvePictureUrl(std::string_view url, const std::string& base_folder);

// Reads and decodes. `name` stands in messages for a picture that has no path.
Result<std::shared_ptr<const ImageInput>> LoadPicture(const PictureSource& source, const std::string& name);

}  // namespace minicpm::cli
