// DecodeVorbis: libvorbisfile on bytes in memory, front to back. Not for telling that bytes are Vorbis (container.cc).
#include "audio/vorbis.h"

#include <vorbis/codec.h>
#define OV_EXCLUDE_STATIC_CALLBACKS  // they would be unused, and are for stdio
#include <vorbis/vorbisfile.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "audio/container.h"

namespace minicpm {
namespace {

size_t Read(void* to, size_t size, size_t count, void* source) {
  std::span<const std::byte>& left = *static_cast<std::span<const std::byte>*>(source);
  if (size == 0) return 0;
  const size_t n = std::min(count, left.size() / size);
  if (n > 0) std::memcpy(to, left.data(), n * size);
  left = left.subspan(n * size);
  return n;
}

struct Close {
  void operator()(OggVorbis_File* file) const { ov_clear(file); }
};

// Interleaves.
void Copy(float* const* channels, int n_channels, long n_frames, std::vector<float>& out) {
  out.resize(static_cast<size_t>(n_frames) * n_channels);
  for (int c = 0; c < n_channels; ++c) {
    for (long i = 0; i < n_frames; ++i) out[i * n_channels + c] = channels[c][i];
  }
}

}  // namespace

Result<Samples> DecodeVorbis(std::span<const std::byte> bytes, const std::string& name, const AudioLimits& limits) {
  OggVorbis_File file;
  const ov_callbacks callbacks = {.read_func = Read, .seek_func = nullptr, .close_func = nullptr, .tell_func = nullptr};
  if (ov_open_callbacks(&bytes, &file, nullptr, 0, callbacks) != 0) {
    return BrokenSound(name, SoundFormat::kVorbis, "its headers are damaged");
  }
  const std::unique_ptr<OggVorbis_File, Close> closer(&file);
  const vorbis_info first = *ov_info(&file, -1);
  MINICPM_ASSIGN(
      SoundConverter converter,
      SoundConverter::Create(static_cast<int>(std::clamp<long>(first.rate, 0, 1 << 30)), first.channels, name, limits));
  std::vector<float> block;
  while (true) {
    float** channels = nullptr;
    int link = 0;
    const long n = ov_read_float(&file, &channels, 4096, &link);
    if (n == OV_HOLE) continue;
    if (n < 0) return BrokenSound(name, SoundFormat::kVorbis, "its data is damaged");
    if (n == 0) break;
    const vorbis_info* info = ov_info(&file, -1);
    if (info->rate != first.rate || info->channels != first.channels) {
      return Fail(ErrorCode::kUnsupported, name + ": the Ogg file changes from " + std::to_string(first.channels) +
                                               " channels at " + std::to_string(first.rate) + " Hz to " +
                                               std::to_string(info->channels) + " at " + std::to_string(info->rate) +
                                               " Hz");
    }
    Copy(channels, first.channels, n, block);
    MINICPM_TRY(converter.Push(block));
  }
  return converter.Finish();
}

}  // namespace minicpm
