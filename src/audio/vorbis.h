// Vorbis in Ogg through libvorbisfile. Internal to this room; callers outside use audio.h.
// Not left to libsndfile, which uses the same library but loses some memory on each file whose headers are broken.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "audio/audio.h"
#include "base/status.h"

namespace minicpm {

// Holes (pages that are missing or damaged) are passed over. Errors: as DecodeAudio.
Result<Samples> DecodeVorbis(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits);

}  // namespace minicpm
