// Which sound format bytes are, and whether the file is whole, read from their structure alone.
// Internal to this room; callers outside use audio.h. Not for decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace minicpm {

enum class SoundFormat { kNone, kWav, kFlac, kOgg, kMp3 };

// By the first bytes; ID3 tags in front of FLAC and MP3 are skipped. Raw samples are never guessed.
SoundFormat SoundFormatOf(std::span<const std::byte> bytes);
// "WAV"; "" for kNone.
const char* NameOf(SoundFormat format);

// Refuses files that end too early, as far as their structure tells without decoding (WAV and Ogg).
// Errors: kCorrupt, with both numbers.
Status CheckWhole(std::span<const std::byte> bytes, SoundFormat format, const std::string& name);

// "a.wav: broken WAV file: <what>"
std::unexpected<Error> BrokenSound(const std::string& name, SoundFormat format, const std::string& what);

}  // namespace minicpm
