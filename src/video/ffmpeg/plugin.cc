// The plugin's only exported function and its table. Not for what the functions do.
extern "C" {
#include <libavdevice/avdevice.h>
#include <libavutil/avutil.h>
#include <libavutil/log.h>
}

#include <string>

#include "video/ffmpeg/av.h"
#include "video/ffmpeg/entries.h"

namespace minicpm::ffmpeg {
namespace {

void Silent(void*, int, const char*, va_list) {}

const char* Description() {
  static const std::string text = [] {
    const unsigned v = avformat_version();
    return std::string("FFmpeg ") + av_version_info() + ", libavformat " + std::to_string(AV_VERSION_MAJOR(v)) + "." +
           std::to_string(AV_VERSION_MINOR(v)) + "." + std::to_string(AV_VERSION_MICRO(v)) + ", " + avformat_license();
  }();
  return text.c_str();
}

constexpr MinicpmMediaApi kApi = {
    .abi = MINICPM_MEDIA_ABI,
    .bytes = sizeof(MinicpmMediaApi),
    .description = Description,
    .video_open = VideoOpen,
    .video_frame = VideoFrame,
    .video_time = VideoTime,
    .video_close = VideoClose,
    .sound_read = SoundRead,
    .live_open = LiveOpen,
    .live_next = LiveNext,
    .live_close = LiveClose,
    .writer_open = WriterOpen,
    .writer_write = WriterWrite,
    .writer_finish = WriterFinish,
    .writer_close = WriterClose,
};

}  // namespace
}  // namespace minicpm::ffmpeg

extern "C" __attribute__((visibility("default"))) const MinicpmMediaApi* minicpm_media_api(uint32_t abi) {
  if (abi != MINICPM_MEDIA_ABI) return nullptr;
  av_log_set_callback(minicpm::ffmpeg::Silent);
  avdevice_register_all();
  return &minicpm::ffmpeg::kApi;
}
