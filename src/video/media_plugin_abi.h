// The border between this program and a media plugin: plain C, versioned, so that either side can be built alone.
// Not for anything that both sides do not need. Every pointer handed over stays with the side that made it.
//
// Calls return 0 when done, MINICPM_MEDIA_END where there is nothing (more), and otherwise an error code with a
// sentence in `error` that does not name the file. No exception may cross. One thread at a time per object.
#ifndef MINICPM_VIDEO_MEDIA_PLUGIN_ABI_H_
#define MINICPM_VIDEO_MEDIA_PLUGIN_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Changes whenever anything below changes.
#define MINICPM_MEDIA_ABI 1u
// Name of the only exported function: const MinicpmMediaApi* (*)(uint32_t abi); null for another abi.
#define MINICPM_MEDIA_ENTRY "minicpm_media_api"

enum {
  MINICPM_MEDIA_DONE = 0,
  MINICPM_MEDIA_END = 1,          // no more frames; no sound track
  MINICPM_MEDIA_CORRUPT = 2,      // the file breaks its own format
  MINICPM_MEDIA_UNSUPPORTED = 3,  // no decoder, no such container
  MINICPM_MEDIA_IO = 4,           // the system or the network said no, or nothing came in time
  MINICPM_MEDIA_TOO_LARGE = 5,    // a limit, or memory
  MINICPM_MEDIA_STOPPED = 6,      // a callback asked for it
  MINICPM_MEDIA_NOT_FOUND = 7
};

typedef struct MinicpmMediaError {
  char message[480];  // ends with a zero byte; any bytes
} MinicpmMediaError;

typedef struct MinicpmMediaVideo MinicpmMediaVideo;    // a file's frames
typedef struct MinicpmMediaLive MinicpmMediaLive;      // a camera or a network stream
typedef struct MinicpmMediaWriter MinicpmMediaWriter;  // a file being written

typedef struct MinicpmMediaLimits {
  uint64_t max_pixels;
  int64_t max_frames;
} MinicpmMediaLimits;

typedef struct MinicpmMediaInfo {
  int32_t width;  // rotation applied, pixel shape not
  int32_t height;
  int64_t n_frames;
  double fps;
  double duration_s;
  int32_t has_sound;
  char format[60];
} MinicpmMediaInfo;

// Whoever takes sound. Nonzero from either function stops the reading.
typedef struct MinicpmMediaSoundSink {
  void* user;
  int32_t (*begin)(void* user, int32_t rate, int32_t channels);
  int32_t (*push)(void* user, const float* interleaved, uint64_t n_values);
} MinicpmMediaSoundSink;

typedef struct MinicpmMediaLiveOptions {
  double open_timeout_s;
  double read_timeout_s;
  uint64_t max_pixels;
  void* user;
  int32_t (*stop)(void* user);  // asked often, from the calling thread; nonzero: give up now
} MinicpmMediaLiveOptions;

typedef struct MinicpmMediaFrame {
  const uint8_t* rgb;  // 3 * width * height; until the next call with the same object
  int32_t width;
  int32_t height;
  double time_s;  // the source's clock; negative: it has none
} MinicpmMediaFrame;

typedef struct MinicpmMediaWriterOptions {
  int32_t width;
  int32_t height;
  double fps;
} MinicpmMediaWriterOptions;

typedef struct MinicpmMediaApi {
  uint32_t abi;
  uint32_t bytes;  // of this structure
  const char* (*description)(void);

  int32_t (*video_open)(const char* path, const MinicpmMediaLimits* limits, MinicpmMediaVideo** video,
                        MinicpmMediaInfo* info, MinicpmMediaError* error);
  // rgb: 3 * info.width * info.height bytes
  int32_t (*video_frame)(MinicpmMediaVideo* video, int64_t index, uint8_t* rgb, MinicpmMediaError* error);
  double (*video_time)(const MinicpmMediaVideo* video, int64_t index);  // seconds from the first frame
  void (*video_close)(MinicpmMediaVideo* video);

  // The first sound track from end to end. END: the file has none.
  int32_t (*sound_read)(const char* path, const MinicpmMediaSoundSink* sink, MinicpmMediaError* error);

  // address: /dev/video*, rtsp:// or rtsps://
  int32_t (*live_open)(const char* address, const MinicpmMediaLiveOptions* options, MinicpmMediaLive** live,
                       double* fps, MinicpmMediaError* error);
  int32_t (*live_next)(MinicpmMediaLive* live, MinicpmMediaFrame* frame, MinicpmMediaError* error);
  void (*live_close)(MinicpmMediaLive* live);

  // ending: "mp4", "mkv" or "mov"; `path` is written to whatever its name. Closing without finishing leaves the file
  // as far as it got.
  int32_t (*writer_open)(const char* path, const char* ending, const MinicpmMediaWriterOptions* options,
                         MinicpmMediaWriter** writer, MinicpmMediaError* error);
  int32_t (*writer_write)(MinicpmMediaWriter* writer, const uint8_t* rgb, double time_s, MinicpmMediaError* error);
  int32_t (*writer_finish)(MinicpmMediaWriter* writer, MinicpmMediaError* error);
  void (*writer_close)(MinicpmMediaWriter* writer);
} MinicpmMediaApi;

typedef const MinicpmMediaApi* (*MinicpmMediaEntry)(uint32_t abi);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MINICPM_VIDEO_MEDIA_PLUGIN_ABI_H_
