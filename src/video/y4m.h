// Uncompressed YUV4MPEG2 (.y4m), 8 bits: the video that needs no codec. Internal to this room; callers use video.h.
// Not for 4:1:1, alpha or more than 8 bits, which the plugin reads.
#pragma once

#include <memory>

#include "base/status.h"
#include "video/byte_source.h"
#include "video/video.h"

namespace minicpm {

// True for bytes that begin like a Y4M file.
bool LooksLikeY4m(std::span<const std::byte> head);

// Errors: kCorrupt (also a last frame that is cut short), kUnsupported (another kind of Y4M), kResourceExhausted.
Result<std::unique_ptr<VideoReader>> OpenY4m(std::unique_ptr<ByteSource> source, const VideoLimits& limits);

}  // namespace minicpm
