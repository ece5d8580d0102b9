// Frames -> Motion JPEG in AVI, in OpenDML parts so that a record may pass 4 GB. Internal to this room; callers use
// video_writer.h. Not for sound.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "video/video_writer.h"

namespace minicpm {

// part_bytes: after how many bytes of frames a new part begins (tests make it small).
Result<std::unique_ptr<VideoWriter>> OpenAviWriter(const std::string& path, const VideoWriterOptions& options,
                                                   uint64_t part_bytes = 1ull << 30);

}  // namespace minicpm
