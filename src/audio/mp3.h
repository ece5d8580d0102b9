// MP3 (and MPEG layers I and II) through libmpg123. Internal to this room; callers outside use audio.h.
// Not left to libsndfile, which uses the same library but lets it print to stderr.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "audio/audio.h"
#include "base/status.h"

namespace minicpm {

// What the encoder put in front of and behind the sound is cut off where the file tells how much. Errors: as
// DecodeAudio.
Result<Samples> DecodeMp3(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits);

}  // namespace minicpm
