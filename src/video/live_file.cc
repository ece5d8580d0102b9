// A video file played at its own pace, or frame by frame. Not for reading what a model is asked about (video.h).
#include <chrono>
#include <utility>

#include "os/clock.h"
#include "video/live_producer.h"
#include "video/video.h"

namespace minicpm {
namespace {

int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

class FileProducer : public LiveProducer {
 public:
  FileProducer(std::unique_ptr<VideoReader> reader, bool every_frame)
      : reader_(std::move(reader)), every_frame_(every_frame) {}

  Result<std::optional<LiveFrame>> Produce(const std::atomic<bool>& stop) override {
    if (!every_frame_ && !WaitForNext(stop)) return std::nullopt;
    if (next_ >= reader_->info().n_frames) return std::nullopt;
    LiveFrame frame;
    frame.number = next_++;
    frame.time_s = reader_->TimeOf(frame.number);
    frame.unix_ms = UnixMs();
    MINICPM_ASSIGN(frame.image, reader_->Frame(frame.number));
    return frame;
  }

  double fps() const override { return reader_->info().fps; }

 private:
  // Sleeps until the next frame is due, or skips those whose successor is due already: decoding may be slower than the
  // video, and the pace is kept. The last frame is never skipped. False: stopped.
  bool WaitForNext(const std::atomic<bool>& stop) {
    if (next_ == 0) start_ms_ = NowMs();
    const int64_t n = reader_->info().n_frames;
    if (next_ >= n) return true;
    const double now_s = (NowMs() - start_ms_) / 1000;
    while (next_ + 1 < n && reader_->TimeOf(next_ + 1) <= now_s) ++next_;
    return SleepUnlessStopped(reader_->TimeOf(next_) - now_s, stop);
  }

  std::unique_ptr<VideoReader> reader_;
  bool every_frame_;
  double start_ms_ = 0;
  int64_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<LiveProducer>> OpenFileProducer(const std::string& path, const MediaPlugin* plugin,
                                                       const LiveOptions& options) {
  MINICPM_ASSIGN(auto reader, OpenVideo(path, plugin));
  return std::make_unique<FileProducer>(std::move(reader), options.every_frame);
}

}  // namespace minicpm
