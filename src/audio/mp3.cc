// DecodeMp3: libmpg123 on bytes in memory, block by block. Not for telling that bytes are MP3 (container.cc).
#include "audio/mp3.h"

#include <mpg123.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "audio/container.h"

namespace minicpm {
namespace {

struct MemoryFile {
  std::span<const std::byte> bytes;
  off_t at = 0;
};

ssize_t Read(void* handle, void* to, size_t count) {
  MemoryFile& file = *static_cast<MemoryFile*>(handle);
  const size_t left = file.bytes.size() - std::min(file.bytes.size(), static_cast<size_t>(file.at));
  const size_t n = std::min(count, left);
  if (n > 0) std::memcpy(to, file.bytes.data() + file.at, n);
  file.at += static_cast<off_t>(n);
  return static_cast<ssize_t>(n);
}

// As with a real file, places behind the end are fine: reading there gives nothing.
off_t Seek(void* handle, off_t offset, int whence) {
  MemoryFile& file = *static_cast<MemoryFile*>(handle);
  const off_t base = whence == SEEK_CUR ? file.at : whence == SEEK_END ? static_cast<off_t>(file.bytes.size()) : 0;
  off_t at = 0;
  if (__builtin_add_overflow(base, offset, &at) || at < 0) return -1;
  return file.at = at;
}

struct DeleteDecoder {
  void operator()(mpg123_handle* decoder) const { mpg123_delete(decoder); }
};
using Decoder = std::unique_ptr<mpg123_handle, DeleteDecoder>;

struct Format {
  long rate = 0;
  int channels = 0;
  int encoding = 0;
};

std::unexpected<Error> Broken(const std::string& name, mpg123_handle* decoder) {
  return BrokenSound(name, SoundFormat::kMp3, Printable(mpg123_strerror(decoder), 200));
}

Result<Decoder> Open(MemoryFile& file, const std::string& name) {
  int error = MPG123_OK;
  Decoder decoder(mpg123_new(nullptr, &error));
  if (decoder == nullptr) {
    return Fail(ErrorCode::kResourceExhausted, name + ": no MP3 decoder: " + mpg123_plain_strerror(error));
  }
  mpg123_handle* handle = decoder.get();
  constexpr long kFlags = MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS | MPG123_SKIP_ID3V2;
  const bool ready = mpg123_param(handle, MPG123_ADD_FLAGS, kFlags, 0) == MPG123_OK &&
                     mpg123_param(handle, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0) == MPG123_OK &&
                     mpg123_replace_reader_handle(handle, Read, Seek, nullptr) == MPG123_OK &&
                     mpg123_open_handle(handle, &file) == MPG123_OK;
  if (!ready) return Broken(name, handle);
  return decoder;
}

Result<Format> FormatOf(mpg123_handle* decoder, const std::string& name) {
  Format format;
  if (mpg123_getformat(decoder, &format.rate, &format.channels, &format.encoding) != MPG123_OK) {
    return Broken(name, decoder);
  }
  if (format.encoding != MPG123_ENC_FLOAT_32) {
    return Fail(ErrorCode::kUnsupported, name + ": the MP3 decoder of this system does not give float samples");
  }
  return format;
}

}  // namespace

Result<Samples> DecodeMp3(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits) {
  MemoryFile file{.bytes = bytes};
  MINICPM_ASSIGN(const Decoder decoder, Open(file, name));
  MINICPM_ASSIGN(const Format format, FormatOf(decoder.get(), name));
  MINICPM_ASSIGN(SoundConverter converter,
                 SoundConverter::Create(static_cast<int>(format.rate), format.channels, name, limits));
  std::vector<float> block(1 << 14);
  while (true) {
    size_t n_bytes = 0;
    const int status = mpg123_read(decoder.get(), block.data(), block.size() * sizeof(float), &n_bytes);
    const size_t n_frames = n_bytes / sizeof(float) / format.channels;
    MINICPM_TRY(converter.Push(std::span(block).first(n_frames * format.channels)));
    if (status == MPG123_OK) continue;
    if (status == MPG123_DONE || status == MPG123_NEED_MORE) break;
    if (status != MPG123_NEW_FORMAT) return Broken(name, decoder.get());
    MINICPM_ASSIGN(const Format changed, FormatOf(decoder.get(), name));
    if (changed.rate != format.rate || changed.channels != format.channels) {
      return Fail(ErrorCode::kUnsupported, name + ": the MP3 changes from " + std::to_string(format.channels) +
                                               " channels at " + std::to_string(format.rate) + " Hz to " +
                                               std::to_string(changed.channels) + " at " +
                                               std::to_string(changed.rate) + " Hz");
    }
  }
  return converter.Finish();
}

}  // namespace minicpm
