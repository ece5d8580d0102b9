// Cameras and network streams, through the plugin. Not for files.
#include <algorithm>
#include <chrono>
#include <utility>

#include "os/clock.h"
#include "video/live_producer.h"
#include "video/media_plugin_impl.h"
#include "video/video.h"

namespace minicpm {
namespace {

// An address may hold a user's name and password, which no message should show.
std::string NameOf(const std::string& address) {
  const size_t scheme = address.find("://");
  if (scheme == std::string::npos) return Printable(address, 300);
  const size_t host = scheme + 3;
  const size_t path = std::min(address.find('/', host), address.size());
  const size_t at = address.substr(0, path).rfind('@');
  if (at == std::string::npos || at < host) return Printable(address, 300);
  return Printable(address.substr(0, host) + address.substr(at + 1), 300);
}

bool IsSet(const std::atomic<bool>* flag) { return flag != nullptr && flag->load(); }

class StreamProducer : public LiveProducer {
 public:
  StreamProducer(const MinicpmMediaApi* api, std::string name) : api_(api), name_(std::move(name)) {}
  ~StreamProducer() override {
    if (live_ != nullptr) api_->live_close(live_);
  }
  StreamProducer(const StreamProducer&) = delete;
  StreamProducer& operator=(const StreamProducer&) = delete;

  Status Open(const std::string& address, const LiveOptions& options) {
    cancel_ = options.cancel;
    const MinicpmMediaLiveOptions plain = {.open_timeout_s = options.open_timeout_s,
                                           .read_timeout_s = options.read_timeout_s,
                                           .max_pixels = VideoLimits().max_pixels,
                                           .user = this,
                                           .stop = [](void* user) -> int32_t {
                                             const auto* self = static_cast<StreamProducer*>(user);
                                             return IsSet(self->stop_) || IsSet(self->cancel_) ? 1 : 0;
                                           }};
    MinicpmMediaError error = {};
    const int32_t code = api_->live_open(address.c_str(), &plain, &live_, &fps_, &error);
    if (code != MINICPM_MEDIA_DONE) return PluginError(name_, code, error);
    return {};
  }

  Result<std::optional<LiveFrame>> Produce(const std::atomic<bool>& stop) override {
    stop_ = &stop;
    MinicpmMediaFrame plain = {};
    MinicpmMediaError error = {};
    const int32_t code = api_->live_next(live_, &plain, &error);
    stop_ = nullptr;
    if (stop || code == MINICPM_MEDIA_END) return std::nullopt;
    if (code != MINICPM_MEDIA_DONE) return PluginError(name_, code, error);
    LiveFrame frame;
    if (next_ == 0) {
      first_time_s_ = plain.time_s;
      first_ms_ = NowMs();
    }
    frame.number = next_++;
    const double by_source = plain.time_s < 0 ? -1 : plain.time_s - first_time_s_;
    // A clock that jumps back, or none: ours.
    frame.time_s = std::max(last_time_s_, by_source >= 0 ? by_source : (NowMs() - first_ms_) / 1000);
    last_time_s_ = frame.time_s;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    frame.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    frame.image.width = plain.width;
    frame.image.height = plain.height;
    frame.image.rgb.assign(plain.rgb, plain.rgb + size_t{3} * plain.width * plain.height);
    return frame;
  }

  double fps() const override { return fps_; }

 private:
  const MinicpmMediaApi* api_;
  std::string name_;
  MinicpmMediaLive* live_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  const std::atomic<bool>* cancel_ = nullptr;
  double fps_ = 0;
  int64_t next_ = 0;
  double first_time_s_ = 0;
  double first_ms_ = 0;
  double last_time_s_ = 0;
};

}  // namespace

Result<std::unique_ptr<LiveProducer>> OpenStreamProducer(const std::string& address, const MediaPlugin& plugin,
                                                         const LiveOptions& options) {
  auto producer = std::make_unique<StreamProducer>(plugin.impl().api, NameOf(address));
  MINICPM_TRY(producer->Open(address, options));
  return producer;
}

}  // namespace minicpm
