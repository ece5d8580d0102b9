// The reading thread and the one place between it and the user; which producer an address gets. Not for what the
// producers do (live_file.cc, live_folder.cc, live_stream.cc).
#include "video/live_source.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "os/clock.h"
#include "video/live_producer.h"

namespace minicpm {
namespace {

constexpr std::chrono::milliseconds kLook(100);  // how often a waiting user looks at `cancel`

class ThreadedSource : public LiveSource {
 public:
  ThreadedSource(std::unique_ptr<LiveProducer> producer, bool drop)
      : producer_(std::move(producer)), drop_(drop), fps_(producer_->fps()) {
    thread_ = std::thread([this] { Run(); });
  }
  ~ThreadedSource() override {
    stop_ = true;
    changed_.notify_all();
    thread_.join();
  }
  ThreadedSource(const ThreadedSource&) = delete;
  ThreadedSource& operator=(const ThreadedSource&) = delete;

  Result<std::optional<LiveFrame>> Next(const std::atomic<bool>* cancel) override {
    std::unique_lock lock(mutex_);
    while (true) {
      if (cancel != nullptr && cancel->load()) return std::nullopt;
      if (newest_.has_value()) {
        std::optional<LiveFrame> frame = std::exchange(newest_, std::nullopt);
        changed_.notify_all();
        return frame;
      }
      if (error_.has_value()) return std::unexpected<Error>(*std::exchange(error_, std::nullopt));
      if (ended_) return std::nullopt;
      changed_.wait_for(lock, kLook);
    }
  }

  std::vector<std::string> TakeWarnings() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings_, {});
  }
  int64_t n_arrived() const override { return n_arrived_; }
  double fps() const override { return fps_; }

 private:
  void Run() {
    while (!stop_) {
      Result<std::optional<LiveFrame>> next = Produce();
      std::unique_lock lock(mutex_);
      std::ranges::move(producer_->TakeWarnings(), std::back_inserter(warnings_));
      if (!next.has_value()) error_ = std::move(next).error();
      if (!next.has_value() || !next->has_value()) break;
      if (!drop_) changed_.wait(lock, [this] { return stop_ || !newest_.has_value(); });
      n_arrived_ = (*next)->number + 1;
      newest_ = std::move(*next);
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  Result<std::optional<LiveFrame>> Produce() {
    try {
      return producer_->Produce(stop_);
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kResourceExhausted, "not enough memory for a frame of the source");
    }
  }

  std::unique_ptr<LiveProducer> producer_;  // the thread's alone
  const bool drop_;
  const double fps_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> n_arrived_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<LiveFrame> newest_;
  std::optional<Error> error_;
  std::vector<std::string> warnings_;
  bool ended_ = false;
  std::thread thread_;
};

// "/dev/videoN" for "camera" and "camera:N"; nullopt for other addresses.
std::optional<std::string> CameraPath(const std::string& address) {
  if (address.starts_with("/dev/video")) return address;
  if (address == "camera") return "/dev/video0";
  if (!address.starts_with("camera:")) return std::nullopt;
  const std::string number = address.substr(7);
  const bool digits = !number.empty() && number.size() <= 3 &&
                      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? "/dev/video" + number : std::optional<std::string>();
}

Result<std::unique_ptr<LiveProducer>> OpenProducer(const std::string& address, const MediaPlugin* plugin,
                                                   const LiveOptions& options) {
  const auto camera = CameraPath(address);
  if (camera.has_value() || address.starts_with("rtsp://") || address.starts_with("rtsps://")) {
    if (plugin == nullptr) {
      return Fail(ErrorCode::kUnsupported,
                  std::string(camera.has_value() ? "cameras" : "RTSP streams") +
                      " need the FFmpeg plugin (build it with FFmpeg's development packages installed)");
    }
    return OpenStreamProducer(camera.value_or(address), *plugin, options);
  }
  if (address.find("://") != std::string::npos) {
    return Fail(ErrorCode::kUnsupported, "a source is a camera, an rtsp:// address, a folder or a file, found \"" +
                                             Printable(address.substr(0, address.find("://") + 3)) + "...\"");
  }
  std::error_code error;
  if (std::filesystem::is_directory(address, error)) return OpenFolderProducer(address, options);
  return OpenFileProducer(address, plugin, options);
}

}  // namespace

bool SleepUnlessStopped(double seconds, const std::atomic<bool>& stop) {
  const double end_ms = NowMs() + 1000 * seconds;
  while (!stop) {
    const double left_ms = end_ms - NowMs();
    if (left_ms <= 0) return true;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(std::min(left_ms, 50.0)));
  }
  return false;
}

Result<std::unique_ptr<LiveSource>> OpenLiveSource(const std::string& address, const MediaPlugin* plugin,
                                                   const LiveOptions& options) {
  try {
    MINICPM_ASSIGN(auto producer, OpenProducer(address, plugin, options));
    return std::make_unique<ThreadedSource>(std::move(producer), !options.every_frame);
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceExhausted, "not enough memory to open the source");
  }
}

}  // namespace minicpm
