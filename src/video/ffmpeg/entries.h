// The functions behind the plugin's table, by file. Their contract stands in media_plugin_abi.h. Not for callers
// outside.
#pragma once

#include "video/media_plugin_abi.h"

namespace minicpm::ffmpeg {

int32_t VideoOpen(const char* path, const MinicpmMediaLimits* limits, MinicpmMediaVideo** video, MinicpmMediaInfo* info,
                  MinicpmMediaError* error);
int32_t VideoFrame(MinicpmMediaVideo* video, int64_t index, uint8_t* rgb, MinicpmMediaError* error);
double VideoTime(const MinicpmMediaVideo* video, int64_t index);
void VideoClose(MinicpmMediaVideo* video);

int32_t SoundRead(const char* path, const MinicpmMediaSoundSink* sink, MinicpmMediaError* error);

int32_t LiveOpen(const char* address, const MinicpmMediaLiveOptions* options, MinicpmMediaLive** live, double* fps,
                 MinicpmMediaError* error);
int32_t LiveNext(MinicpmMediaLive* live, MinicpmMediaFrame* frame, MinicpmMediaError* error);
void LiveClose(MinicpmMediaLive* live);

int32_t WriterOpen(const char* path, const char* ending, const MinicpmMediaWriterOptions* options,
                   MinicpmMediaWriter** writer, MinicpmMediaError* error);
int32_t WriterWrite(MinicpmMediaWriter* writer, const uint8_t* rgb, double time_s, MinicpmMediaError* error);
int32_t WriterFinish(MinicpmMediaWriter* writer, MinicpmMediaError* error);
void WriterClose(MinicpmMediaWriter* writer);

}  // namespace minicpm::ffmpeg
