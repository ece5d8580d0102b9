// FakeVideo: a video made of numbers, which remembers what was read of it. For tests of prompts and sessions; the
// readers of real files have their own tests (src/video).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/media.h"

namespace minicpm::test {

// Which frames were asked for, in order, over all readers of one video.
using FrameLog = std::vector<int64_t>;

// Frame i: a gradient that moves with i.
inline Image FakeFrame(int width, int height, int64_t index) {
  Image image{width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height))};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint8_t* p = &image.rgb[static_cast<size_t>(3 * (y * width + x))];
      p[0] = static_cast<uint8_t>(x * 5 + index * 37);
      p[1] = static_cast<uint8_t>(y * 3 + index * 11);
      p[2] = static_cast<uint8_t>((x ^ y) + index);
    }
  }
  return image;
}

class FakeReader : public VideoReader {
 public:
  FakeReader(VideoInfo info, std::shared_ptr<FrameLog> log) : info_(std::move(info)), log_(std::move(log)) {}
  const VideoInfo& info() const override { return info_; }
  Result<Image> Frame(int64_t index) override {
    log_->push_back(index);
    return FakeFrame(info_.width, info_.height, index);
  }

 private:
  VideoInfo info_;
  std::shared_ptr<FrameLog> log_;
};

// seconds_of_sound > 0: a track of a slow tone.
inline std::shared_ptr<const VideoInput> FakeVideo(int width, int height, int64_t n_frames, double fps,
                                                   double seconds_of_sound = 0,
                                                   std::shared_ptr<FrameLog> log = std::make_shared<FrameLog>()) {
  auto video = std::make_shared<VideoInput>();
  video->name = "fake.y4m";
  video->info.width = width;
  video->info.height = height;
  video->info.n_frames = n_frames;
  video->info.fps = fps;
  video->info.duration_s = static_cast<double>(n_frames) / fps;
  video->open = [info = video->info, log]() -> Result<std::unique_ptr<VideoReader>> {
    return std::make_unique<FakeReader>(info, log);
  };
  if (seconds_of_sound > 0) {
    Samples samples(static_cast<size_t>(seconds_of_sound * kAudioSampleRate));
    for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i % 160) / 160.0f - 0.5f;
    video->info.has_sound = true;
    video->sound = MakeAudioInput(video->name, std::move(samples));
  }
  return video;
}

}  // namespace minicpm::test
