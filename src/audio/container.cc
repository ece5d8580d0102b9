// RIFF chunks, Ogg pages, ID3 tags and MPEG frame headers, just far enough to name the format and see a cut file.
// Not for decoding: libsndfile does that.
#include "audio/container.h"

#include <algorithm>
#include <string_view>

namespace minicpm {
namespace {

using std::string_view_literals::operator""sv;

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t Number(std::string_view bytes, bool big_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t at = big_endian ? i : bytes.size() - 1 - i;
    value = value << 8 | static_cast<uint8_t>(bytes[at]);
  }
  return value;
}

// Bytes of the ID3v2 tags in front.
size_t TagBytes(std::string_view text) {
  constexpr size_t kHeader = 10;
  size_t at = 0;
  while (text.size() - at >= kHeader && text.substr(at, 3) == "ID3"sv) {
    size_t length = 0;  // four times seven bits
    for (const char c : text.substr(at + 6, 4)) length = length << 7 | (static_cast<uint8_t>(c) & 0x7f);
    at = std::min(text.size(), at + kHeader + length);
  }
  return at;
}

// The header before every MPEG audio frame. AAC's own begins alike, but has layer 0.
struct MpegHeader {
  int version = 0;   // 3: MPEG 1, 2: MPEG 2, 0: MPEG 2.5
  int layer = 0;     // 3: I, 2: II, 1: III
  int bitrate = 0;   // kbit/s
  int rate = 0;      // Hz
  size_t bytes = 0;  // of the frame
};

std::optional<MpegHeader> MpegHeaderAt(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) != 0xff || (byte(1) & 0xe0) != 0xe0) return std::nullopt;
  MpegHeader header{.version = byte(1) >> 3 & 3, .layer = byte(1) >> 1 & 3};
  const int bitrate = byte(2) >> 4;
  const int rate = byte(2) >> 2 & 3;
  // 0 would be a stream whose frames have a length of their own, which nobody writes.
  if (header.version == 1 || header.layer == 0 || bitrate == 0 || bitrate == 15 || rate == 3) return std::nullopt;
  constexpr int kBitrates[5][15] = {{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},  // 1, I
                                    {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},     // 1, II
                                    {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},      // 1, III
                                    {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},     // 2, I
                                    {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};         // 2, other
  constexpr int kRates[3] = {44100, 48000, 32000};
  const bool first = header.version == 3;
  header.bitrate = kBitrates[first ? 3 - header.layer : header.layer == 3 ? 3 : 4][bitrate];
  header.rate = kRates[rate] >> (first ? 0 : header.version == 2 ? 1 : 2);
  const size_t padding = byte(2) >> 1 & 1;
  if (header.layer == 3) {
    header.bytes = (12000 * header.bitrate / header.rate + padding) * 4;
  } else {
    const int per_frame = header.layer == 1 && !first ? 72000 : 144000;
    header.bytes = per_frame * header.bitrate / header.rate + padding;
  }
  return header;
}

// A frame followed by another of its kind, or by nothing: four bytes alone are too easily met by chance.
bool IsMpegAudio(std::string_view text) {
  const std::optional<MpegHeader> header = MpegHeaderAt(text);
  if (!header.has_value()) return false;
  if (header->bytes >= text.size()) return header->bytes == text.size();
  const std::optional<MpegHeader> next = MpegHeaderAt(text.substr(header->bytes));
  return next.has_value() && next->version == header->version && next->layer == header->layer &&
         next->rate == header->rate;
}

Patch LengthPatch(size_t at, uint64_t length, bool big_endian) {
  Patch patch{.at = at, .bytes = {}};
  for (size_t i = 0; i < 4; ++i) {
    patch.bytes[big_endian ? 3 - i : i] = static_cast<std::byte>(length >> 8 * i & 0xff);
  }
  return patch;
}

// WAV: the chunks up to the one with the samples.
Result<std::optional<Patch>> CheckWav(std::string_view text, const std::string& name) {
  constexpr size_t kRiffHeader = 12;
  constexpr size_t kChunkHeader = 8;
  // Programs that do not know how much will come write 0, 0x7ffff..., 0x80000000 or 0xffffffff.
  constexpr uint64_t kUnknown = 0x7fff0000;
  const bool big_endian = text.starts_with("RIFX"sv);
  const uint64_t riff_length = Number(text.substr(4, 4), big_endian);
  uint64_t long_data = 0;  // RF64 keeps the size in a chunk of its own
  size_t at = kRiffHeader;
  while (text.size() >= at + kChunkHeader) {
    const std::string_view id = text.substr(at, 4);
    uint64_t length = Number(text.substr(at + 4, 4), big_endian);
    const uint64_t left = text.size() - at - kChunkHeader;
    if (id == "ds64"sv && left >= 16) long_data = Number(text.substr(at + kChunkHeader + 8, 8), false);
    if (id == "data"sv) {
      if (length == 0xffffffff && long_data != 0) length = long_data;
      // A length of 0 is true when the file's own length includes what stands behind.
      const bool empty = length == 0 && riff_length < kUnknown && riff_length + 8 >= text.size();
      if ((length == 0 && !empty) || (length > left && length >= kUnknown)) {
        return LengthPatch(at + 4, std::min<uint64_t>(left, kUnknown), big_endian);
      }
      if (length <= left) return std::nullopt;
      return BrokenSound(name, SoundFormat::kWav,
                         "the file ends too early: its header promises " + std::to_string(length) +
                             " bytes of samples, " + std::to_string(left) + " are there");
    }
    if (length > left) break;
    at += kChunkHeader + length + (length & 1);
  }
  return BrokenSound(name, SoundFormat::kWav, "the file ends before its samples begin");
}

// By the first packet of the first page.
SoundFormat OggContent(std::string_view text) {
  constexpr size_t kPageHeader = 27;
  if (text.size() < kPageHeader) return SoundFormat::kNone;
  const size_t at = kPageHeader + static_cast<uint8_t>(text[kPageHeader - 1]);
  const std::string_view packet = text.substr(std::min(at, text.size()));
  if (packet.starts_with("\x01vorbis"sv)) return SoundFormat::kVorbis;
  const bool other = packet.starts_with("OpusHead"sv) || packet.starts_with(
                                                             "\x7f"
                                                             "FLAC"sv);
  return other ? SoundFormat::kOtherOgg : SoundFormat::kNone;
}

// Ogg: whole pages to the end. What stands between or after pages is left to the decoder.
Status CheckOgg(std::string_view text, const std::string& name) {
  constexpr size_t kPageHeader = 27;
  size_t at = 0;
  while (text.substr(at).starts_with("OggS"sv)) {
    const size_t left = text.size() - at;
    size_t length = kPageHeader;
    if (left >= kPageHeader) {
      const size_t n_segments = static_cast<uint8_t>(text[at + kPageHeader - 1]);
      length += n_segments;
      if (left >= length) {
        for (const char c : text.substr(at + kPageHeader, n_segments)) length += static_cast<uint8_t>(c);
      }
    }
    if (length > left) {
      return BrokenSound(name, SoundFormat::kOtherOgg,
                         "the file ends too early: its last page has at least " + std::to_string(length) + " bytes, " +
                             std::to_string(left) + " are there");
    }
    at += length;
    if (at == text.size()) break;
  }
  return {};
}

}  // namespace

SoundFormat SoundFormatOf(std::span<const std::byte> bytes) {
  const std::string_view text = Text(bytes);
  const std::string_view riff = text.substr(0, 4);
  if ((riff == "RIFF"sv || riff == "RIFX"sv || riff == "RF64"sv) && text.size() >= 12 &&
      text.substr(8, 4) == "WAVE"sv) {
    return SoundFormat::kWav;
  }
  if (riff == "OggS"sv) return OggContent(text);
  const std::string_view sound = text.substr(TagBytes(text));
  if (sound.starts_with("fLaC"sv)) return SoundFormat::kFlac;
  return IsMpegAudio(sound) ? SoundFormat::kMp3 : SoundFormat::kNone;
}

const char* NameOf(SoundFormat format) {
  switch (format) {
    case SoundFormat::kWav:
      return "WAV";
    case SoundFormat::kFlac:
      return "FLAC";
    case SoundFormat::kVorbis:
    case SoundFormat::kOtherOgg:
      return "Ogg";
    case SoundFormat::kMp3:
      return "MP3";
    case SoundFormat::kNone:
      break;
  }
  return "";
}

Result<std::optional<Patch>> CheckWhole(std::span<const std::byte> bytes, SoundFormat format, const std::string& name) {
  if (format == SoundFormat::kWav) return CheckWav(Text(bytes), name);
  if (format == SoundFormat::kVorbis || format == SoundFormat::kOtherOgg) MINICPM_TRY(CheckOgg(Text(bytes), name));
  // libsndfile would try the Vorbis stream, and lose some memory each time its headers are broken.
  if (format == SoundFormat::kOtherOgg && Text(bytes).contains("\x01vorbis"sv)) {
    return Fail(ErrorCode::kUnsupported, name + ": the Ogg file holds several streams, which is not supported");
  }
  return std::nullopt;
}

std::unexpected<Error> BrokenSound(const std::string& name, SoundFormat format, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, name + ": broken " + NameOf(format) + " file: " + what);
}

}  // namespace minicpm
