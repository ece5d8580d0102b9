// Which sound format bytes are, and whether the file is whole, read from their structure alone.
// Internal to this room; callers outside use audio.h. Not for decoding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"

namespace minicpm {

enum class SoundFormat { kNone, kWav, kFlac, kVorbis, kOtherOgg, kMp3 };

// By the first bytes; kOtherOgg is Opus or FLAC in Ogg, no other content of Ogg is sound here. ID3 tags in front of
// FLAC and MP3 are skipped. Raw samples are never guessed.
SoundFormat SoundFormatOf(std::span<const std::byte> bytes);
// "WAV"; "" for kNone.
const char* NameOf(SoundFormat format);

// Four bytes that the decoder must see instead of the file's own.
struct Patch {
  size_t at = 0;
  std::array<std::byte, 4> bytes = {};
};

// Refuses files that end too early, as far as their structure tells without decoding (WAV and Ogg). A WAV that does not
// know its length gets a patch with the length it has. Errors: kCorrupt, with both numbers.
Result<std::optional<Patch>> CheckWhole(std::span<const std::byte> bytes, SoundFormat format, const std::string& name);

// "a.wav: broken WAV file: <what>"
std::unexpected<Error> BrokenSound(const std::string& name, SoundFormat format, const std::string& what);

}  // namespace minicpm
