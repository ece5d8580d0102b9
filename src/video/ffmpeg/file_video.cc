// Frames of a file by their number: one pass over the packets finds their times, then frames are decoded where asked.
// Not for sound (file_sound.cc) or streams without an end (live.cc).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "video/ffmpeg/av.h"
#include "video/ffmpeg/entries.h"

namespace minicpm::ffmpeg {
namespace {

constexpr int kThreads = 2;
// Decoding so many frames on costs about as much as a seek.
constexpr int64_t kWorthSeeking = 12;
// Where the decoder stands when it does not stand after a frame that was asked for.
constexpr int64_t kFresh = -1;  // at the beginning
constexpr int64_t kLost = -2;   // after an error

class Video {
 public:
  Video(const char* path, const MinicpmMediaLimits& limits) : path_(path), limits_(limits) {
    Open();
    has_sound_ = file_->FirstStream(AVMEDIA_TYPE_AUDIO) >= 0;
    FindFrames();
    Open();  // some demuxers do not come back to their first packet after the end
    decoder_ = OpenDecoder(Stream(), limits.max_pixels, kThreads);
    Measure();
  }

  void Describe(MinicpmMediaInfo* info) const {
    info->width = width_;
    info->height = height_;
    info->n_frames = static_cast<int64_t>(times_.size());
    info->fps = fps_;
    info->duration_s = static_cast<double>(times_.size()) / fps_;
    info->has_sound = has_sound_ ? 1 : 0;
    std::snprintf(info->format, sizeof info->format, "%s/%s", file_->format()->iformat->name,
                  avcodec_get_name(Stream()->codecpar->codec_id));
  }

  double Time(int64_t index) const {
    return static_cast<double>(times_[static_cast<size_t>(index)] - times_[0]) * av_q2d(Stream()->time_base);
  }

  void Frame(int64_t index, uint8_t* rgb) {
    if (index != shown_) Decode(index);
    shown_ = index;
    converter_.Convert(*frame_, turn_, width_, height_, rgb);
  }

 private:
  const AVStream* Stream() const { return file_->format()->streams[stream_]; }

  void Open() {
    file_.reset();  // before the second opening: one at a time
    file_ = std::make_unique<LocalFile>(path_.c_str());
    stream_ = file_->FirstStream(AVMEDIA_TYPE_VIDEO);
    if (stream_ < 0) Throw(MINICPM_MEDIA_UNSUPPORTED, "the file has no video, only sound or pictures of it");
    for (unsigned i = 0; i < file_->format()->nb_streams; ++i) {
      if (static_cast<int>(i) != stream_) file_->format()->streams[i]->discard = AVDISCARD_ALL;
    }
  }

  // When a packet's frame is shown; packets of raw streams know no time and get their number.
  static int64_t TimeOf(const AVPacket& packet, int64_t number) {
    if (packet.pts != AV_NOPTS_VALUE) return packet.pts;
    return packet.dts != AV_NOPTS_VALUE ? packet.dts : number;
  }

  void FindFrames() {
    std::vector<int64_t> keys;  // times
    // Growing step by step would take twice the memory.
    if (const int listed = avformat_index_get_entries_count(Stream()); listed > 0) {
      times_.reserve(static_cast<size_t>(std::min<int64_t>(listed, limits_.max_frames)));
    }
    PacketPtr packet(NeedMemory(av_packet_alloc()));
    int end = 0;
    int64_t number = 0;
    while ((end = av_read_frame(file_->format(), packet.get())) >= 0) {
      const bool mine = packet->stream_index == stream_;
      if (mine && (packet->flags & AV_PKT_FLAG_CORRUPT) != 0) {
        Throw(MINICPM_MEDIA_CORRUPT, "the file ends or is damaged at frame " + std::to_string(number));
      }
      if (mine && (packet->flags & AV_PKT_FLAG_DISCARD) == 0) {
        if (static_cast<int64_t>(times_.size()) >= limits_.max_frames) {
          Throw(MINICPM_MEDIA_TOO_LARGE,
                "the video has more than " + std::to_string(limits_.max_frames) + " frames, which is the limit");
        }
        timed_ = timed_ && (packet->pts != AV_NOPTS_VALUE || packet->dts != AV_NOPTS_VALUE);
        const int64_t time = TimeOf(*packet, number);
        times_.push_back(time);
        if ((packet->flags & AV_PKT_FLAG_KEY) != 0) keys.push_back(time);
        ++number;
      }
      av_packet_unref(packet.get());
    }
    if (end != AVERROR_EOF) ThrowAv("the file is damaged after frame " + std::to_string(number), end);
    file_->CheckComplete(stream_, number);
    if (times_.empty()) Throw(MINICPM_MEDIA_CORRUPT, "the file has a video track but no frames in it");
    std::sort(times_.begin(), times_.end());
    std::sort(keys.begin(), keys.end());
    if (times_.capacity() > times_.size() + times_.size() / 8) times_.shrink_to_fit();
    for (const int64_t time : keys) {
      keys_.push_back(std::lower_bound(times_.begin(), times_.end(), time) - times_.begin());
    }
  }

  void Measure() {
    const AVStream* stream = Stream();
    turn_ = TurnOf(stream);
    // The container's size may differ from the coded one; the frames have the decoder's.
    width_ = decoder_->width > 0 ? decoder_->width : stream->codecpar->width;
    height_ = decoder_->height > 0 ? decoder_->height : stream->codecpar->height;
    if (width_ < 1 || height_ < 1) Throw(MINICPM_MEDIA_CORRUPT, "the video has no size");
    if (static_cast<uint64_t>(width_) * static_cast<uint64_t>(height_) > limits_.max_pixels) {
      Throw(MINICPM_MEDIA_TOO_LARGE, "a frame has " + std::to_string(width_) + " x " + std::to_string(height_) +
                                         " pixels, the limit is " + std::to_string(limits_.max_pixels));
    }
    if (turn_.transposed) std::swap(width_, height_);
    // The container's average, as the models' helpers have it, unless the frames' own times say something else.
    const double average = stream->avg_frame_rate.den > 0 ? av_q2d(stream->avg_frame_rate) : 0;
    const auto n = static_cast<double>(times_.size());
    const double span = timed_ ? static_cast<double>(times_.back() - times_.front()) * av_q2d(stream->time_base) : 0;
    const double measured = n > 1 && span > 0 ? (n - 1) / span : 0;
    fps_ = average;
    if (measured > 0 && !(average >= measured * 0.9 && average <= measured * 1.1)) fps_ = measured;
    if (!(fps_ > 0)) fps_ = 25;
    fps_ = std::clamp(fps_, 1e-3, 1e4);
  }

  // The last key frame at or before `index`; 0 when none is known.
  int64_t KeyBefore(int64_t index) const {
    const auto after = std::upper_bound(keys_.begin(), keys_.end(), index);
    return after == keys_.begin() ? 0 : *(after - 1);
  }

  void Decode(int64_t index) {
    const int64_t time = times_[static_cast<size_t>(index)];
    const int64_t key = KeyBefore(index);
    const int64_t at = std::exchange(shown_, kLost);  // until the frame is there
    if (at == kLost || index <= at || key > at + kWorthSeeking) {
      if (!Seek(key) || !Forward(time, true)) {
        Restart();
        if (!Forward(time, false)) NoFrame(index);
      }
      return;
    }
    if (!Forward(time, false)) NoFrame(index);
  }

  [[noreturn]] static void NoFrame(int64_t index) {
    Throw(MINICPM_MEDIA_CORRUPT, "frame " + std::to_string(index) + " does not decode, the file is damaged");
  }

  bool Seek(int64_t key) {
    if (!timed_ || key == 0) {
      Restart();
      return true;
    }
    if (av_seek_frame(file_->format(), stream_, times_[static_cast<size_t>(key)], AVSEEK_FLAG_BACKWARD) < 0)
      return false;
    avcodec_flush_buffers(decoder_.get());
    draining_ = false;
    return true;
  }

  void Restart() {
    Open();
    decoder_ = OpenDecoder(Stream(), limits_.max_pixels, kThreads);
    draining_ = false;
    decoded_ = 0;
  }

  // Decodes up to the frame shown at `time`, into frame_. False: the file has no such frame, or (`strict`) only later
  // ones came, after a seek that went too far.
  bool Forward(int64_t time, bool strict) {
    bool first = true;
    FramePtr frame(NeedMemory(av_frame_alloc()));
    while (Receive(frame.get())) {
      const int64_t shown = timed_ ? frame->best_effort_timestamp : decoded_;
      ++decoded_;
      if (strict && first && shown > time) return false;
      first = false;
      if (shown < time) continue;
      if ((frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame->decode_error_flags != 0) return false;
      frame_ = std::move(frame);
      return true;
    }
    return false;
  }

  bool Receive(AVFrame* frame) {
    while (true) {
      const int e = avcodec_receive_frame(decoder_.get(), frame);
      if (e >= 0) return true;
      if (e == AVERROR_EOF) return false;
      if (e != AVERROR(EAGAIN)) ThrowAv("a frame does not decode", e);
      Feed();
    }
  }

  void Feed() {
    if (draining_) Throw(MINICPM_MEDIA_CORRUPT, "the decoder waits for data after the end");
    PacketPtr packet(NeedMemory(av_packet_alloc()));
    while (true) {
      const int e = av_read_frame(file_->format(), packet.get());
      if (e == AVERROR_EOF) {
        draining_ = true;
        avcodec_send_packet(decoder_.get(), nullptr);
        return;
      }
      if (e < 0) ThrowAv("the file is damaged", e);
      if (packet->stream_index != stream_) {
        av_packet_unref(packet.get());
        continue;
      }
      const int sent = avcodec_send_packet(decoder_.get(), packet.get());
      if (sent < 0 && sent != AVERROR(EAGAIN)) ThrowAv("a frame does not decode", sent);
      return;
    }
  }

  std::string path_;
  MinicpmMediaLimits limits_;
  std::unique_ptr<LocalFile> file_;
  CodecPtr decoder_;
  RgbConverter converter_;
  FramePtr frame_;
  Turn turn_;
  int stream_ = -1;
  int width_ = 0;
  int height_ = 0;
  double fps_ = 0;
  bool has_sound_ = false;
  bool timed_ = true;           // packets say when they are shown
  std::vector<int64_t> times_;  // of the frames, ascending, in the stream's time base
  std::vector<int64_t> keys_;   // numbers of the key frames, ascending
  int64_t shown_ = kFresh;      // number of the frame in frame_, after which the decoder stands
  int64_t decoded_ = 0;
  bool draining_ = false;
};

Video* Of(MinicpmMediaVideo* video) { return reinterpret_cast<Video*>(video); }

}  // namespace

int32_t VideoOpen(const char* path, const MinicpmMediaLimits* limits, MinicpmMediaVideo** video, MinicpmMediaInfo* info,
                  MinicpmMediaError* error) {
  return Guard(error, [&] {
    auto opened = std::make_unique<Video>(path, *limits);
    opened->Describe(info);
    *video = reinterpret_cast<MinicpmMediaVideo*>(opened.release());
    return MINICPM_MEDIA_DONE;
  });
}

int32_t VideoFrame(MinicpmMediaVideo* video, int64_t index, uint8_t* rgb, MinicpmMediaError* error) {
  return Guard(error, [&] {
    Of(video)->Frame(index, rgb);
    return MINICPM_MEDIA_DONE;
  });
}

double VideoTime(const MinicpmMediaVideo* video, int64_t index) {
  return reinterpret_cast<const Video*>(video)->Time(index);
}

void VideoClose(MinicpmMediaVideo* video) { delete Of(video); }

}  // namespace minicpm::ffmpeg
