// DecodeAudio and LoadAudio: limits on bytes and seconds, libsndfile on bytes in memory. Not for MP3 and Vorbis
// (mp3.cc, vorbis.cc), changing rates (sound_converter.cc) or telling formats apart (container.cc).
#include "audio/audio.h"

#include <sndfile.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>

#include "audio/container.h"
#include "audio/mp3.h"
#include "audio/vorbis.h"

namespace minicpm {
namespace {

// A file that stands in memory, for libsndfile's callbacks.
struct MemoryFile {
  std::span<const std::byte> bytes;
  std::optional<Patch> patch;
  sf_count_t at = 0;
};

sf_count_t Length(void* file) { return static_cast<sf_count_t>(static_cast<MemoryFile*>(file)->bytes.size()); }

sf_count_t Tell(void* file) { return static_cast<MemoryFile*>(file)->at; }

sf_count_t Seek(sf_count_t offset, int whence, void* file) {
  MemoryFile& memory = *static_cast<MemoryFile*>(file);
  const sf_count_t length = Length(file);
  const sf_count_t base = whence == SEEK_CUR ? memory.at : whence == SEEK_END ? length : 0;
  if (offset < -base || offset > length - base) return -1;
  return memory.at = base + offset;
}

sf_count_t Read(void* to, sf_count_t count, void* file) {
  MemoryFile& memory = *static_cast<MemoryFile*>(file);
  const sf_count_t n = std::clamp<sf_count_t>(count, 0, Length(file) - memory.at);
  if (n > 0) std::memcpy(to, memory.bytes.data() + memory.at, static_cast<size_t>(n));
  if (memory.patch.has_value()) {
    for (size_t i = 0; i < memory.patch->bytes.size(); ++i) {
      const sf_count_t place = static_cast<sf_count_t>(memory.patch->at + i) - memory.at;
      if (place >= 0 && place < n) static_cast<std::byte*>(to)[place] = memory.patch->bytes[i];
    }
  }
  memory.at += n;
  return n;
}

struct CloseSound {
  void operator()(SNDFILE* sound) const { sf_close(sound); }
};
using Sound = std::unique_ptr<SNDFILE, CloseSound>;

std::unexpected<Error> TooManyBytes(const std::string& name, uint64_t found, const char* at_least, uint64_t limit) {
  return Fail(ErrorCode::kResourceExhausted, name + ": the sound file has " + at_least + std::to_string(found) +
                                                 " bytes, the limit is " + std::to_string(limit));
}

std::unexpected<Error> OutOfMemory(const std::string& name) {
  return Fail(ErrorCode::kResourceExhausted, name + ": not enough memory for the sound");
}

// The number of frames that the header tells, or -1 when it does not know.
sf_count_t PromisedFrames(const SF_INFO& info) {
  constexpr sf_count_t kUnknown = sf_count_t{1} << 48;  // libsndfile's word for it is the largest number
  return info.frames >= 0 && info.frames < kUnknown ? info.frames : -1;
}

Result<Samples> ReadFrames(SNDFILE* sound, const SF_INFO& info, SoundFormat format, const std::string& name,
                           SoundConverter converter) {
  constexpr sf_count_t kBlockSamples = 1 << 16;
  const sf_count_t block_frames = std::max<sf_count_t>(1, kBlockSamples / info.channels);
  std::vector<float> block(static_cast<size_t>(block_frames * info.channels));
  const sf_count_t promised = PromisedFrames(info);
  if (promised > 0) converter.Expect(static_cast<uint64_t>(promised));
  sf_count_t n_frames = 0;
  while (true) {
    const sf_count_t n = sf_readf_float(sound, block.data(), block_frames);
    if (n <= 0) break;
    n_frames += n;
    MINICPM_TRY(converter.Push(std::span(block).first(static_cast<size_t>(n * info.channels))));
  }
  if (const int error = sf_error(sound); error != SF_ERR_NO_ERROR) {
    return BrokenSound(name, format, Printable(sf_strerror(sound), 200));
  }
  if (format == SoundFormat::kFlac && promised >= 0 && n_frames < promised) {
    return BrokenSound(name, format,
                       "the file ends too early: its header promises " + std::to_string(promised) + " samples, " +
                           std::to_string(n_frames) + " are there");
  }
  return converter.Finish();
}

Result<Samples> Decode(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits) {
  if (bytes.size() > limits.max_bytes) return TooManyBytes(name, bytes.size(), "", limits.max_bytes);
  if (bytes.empty()) return Fail(ErrorCode::kCorrupt, name + ": the sound file is empty");
  const SoundFormat format = SoundFormatOf(bytes);
  if (format == SoundFormat::kNone) {
    const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Fail(
        ErrorCode::kUnsupported,
        name + ": not a WAV, FLAC, Ogg (Vorbis, Opus) or MP3 sound (it begins with \"" + Printable(head, 8) + "\")");
  }
  MINICPM_ASSIGN(const std::optional<Patch> patch, CheckWhole(bytes, format, name));
  if (format == SoundFormat::kVorbis) return DecodeVorbis(bytes, name, limits);
  if (format == SoundFormat::kMp3) return DecodeMp3(bytes, name, limits);
  SF_VIRTUAL_IO io = {.get_filelen = Length, .seek = Seek, .read = Read, .write = nullptr, .tell = Tell};
  MemoryFile file{.bytes = bytes, .patch = patch};
  SF_INFO info = {};
  const Sound sound(sf_open_virtual(&io, SFM_READ, &info, &file));
  // What went wrong in opening is told by sf_strerror(nullptr) only, which is one text for all threads.
  if (sound == nullptr) return BrokenSound(name, format, "it is damaged, or holds no sound that can be decoded");
  MINICPM_ASSIGN(SoundConverter converter, SoundConverter::Create(info.samplerate, info.channels, name, limits));
  double seconds = static_cast<double>(PromisedFrames(info)) / info.samplerate;
  if (limits.keep_seconds > 0) seconds = std::min(seconds, limits.keep_seconds);
  if (seconds > limits.max_seconds) {
    char text[120];
    std::snprintf(text, sizeof text, ": the sound has %.10g seconds, the limit is %.10g", seconds, limits.max_seconds);
    return Fail(ErrorCode::kResourceExhausted, name + text);
  }
  return ReadFrames(sound.get(), info, format, name, std::move(converter));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<std::vector<std::byte>> ReadFile(const std::string& path, const std::string& name, const AudioLimits& limits) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const auto code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Fail(code, name + ": cannot open the sound: " + std::strerror(errno));
  }
  // Of an ordinary file the size is known before anything is read.
  std::error_code unknown;
  if (std::filesystem::is_regular_file(path, unknown)) {
    const uintmax_t size = std::filesystem::file_size(path, unknown);
    if (!unknown && size > limits.max_bytes) return TooManyBytes(name, size, "", limits.max_bytes);
  }
  std::vector<std::byte> bytes;
  constexpr size_t kPiece = size_t{1} << 20;
  while (true) {  // in pieces, because a pipe or device tells no size and a file may grow
    const size_t had = bytes.size();
    bytes.resize(had + kPiece);
    const size_t n = std::fread(bytes.data() + had, 1, kPiece, file.get());
    bytes.resize(had + n);
    if (bytes.size() > limits.max_bytes) return TooManyBytes(name, bytes.size(), "at least ", limits.max_bytes);
    if (n < kPiece) break;
  }
  if (std::ferror(file.get()) != 0) {
    return Fail(ErrorCode::kIo, name + ": cannot read the sound: " + std::strerror(errno));
  }
  return bytes;
}

}  // namespace

bool IsSoundFile(std::span<const std::byte> bytes) { return SoundFormatOf(bytes) != SoundFormat::kNone; }

Result<Samples> DecodeAudio(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits) {
  const std::string safe_name = Printable(name, 300);
  try {
    return Decode(bytes, safe_name, limits);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(safe_name);
  }
}

Result<Samples> LoadAudio(const std::string& path, const AudioLimits& limits) {
  const std::string safe_name = Printable(path, 300);
  try {
    MINICPM_ASSIGN(const auto bytes, ReadFile(path, safe_name, limits));
    return Decode(bytes, safe_name, limits);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(safe_name);
  }
}

}  // namespace minicpm
