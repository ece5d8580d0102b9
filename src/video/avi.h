// Motion JPEG in AVI, with OpenDML's long files and PCM sound. Internal to this room; callers use video.h.
// Not for other codecs in AVI, which the plugin reads.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "audio/audio.h"
#include "base/status.h"
#include "video/byte_source.h"
#include "video/video.h"

namespace minicpm {

// True for bytes that begin like an AVI file.
bool LooksLikeAvi(std::span<const std::byte> head);

// Frames are counted by the file's chunks, found through its index where that agrees with the file, else by walking
// over all chunks. An empty chunk shows the frame before it once more. A file that ends inside of its frames is
// refused; one whose index or lengths were never written, as after a power cut, is read.
// Errors: kCorrupt, kUnsupported (another codec), kResourceExhausted.
Result<std::unique_ptr<VideoReader>> OpenAvi(std::unique_ptr<ByteSource> source, const VideoLimits& limits);

// The first sound track. nullopt: there is none. Errors: as above; kUnsupported for anything but PCM.
Result<std::optional<Samples>> LoadAviSound(ByteSource& source, const AudioLimits& limits);

}  // namespace minicpm
