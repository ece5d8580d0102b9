// A folder that fills with pictures, looked at again and again. Not for videos in folders.
#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "video/live_producer.h"

namespace minicpm {
namespace {

namespace fs = std::filesystem;

// When a file was changed, and its size: another stamp is another picture.
struct Stamp {
  int64_t changed_ns = 0;
  uint64_t bytes = 0;
  bool operator==(const Stamp&) const = default;
};

struct Candidate {
  std::string name;
  Stamp stamp;
  bool operator<(const Candidate& other) const {
    return std::tie(stamp.changed_ns, name) < std::tie(other.stamp.changed_ns, other.name);
  }
};

// Names that programs give to what they have not finished.
bool IsUnfinishedName(const std::string& name) {
  return name.starts_with('.') || name.ends_with('~') || name.ends_with(".tmp") || name.ends_with(".part") ||
         name.find(".part-") != std::string::npos || name.ends_with(".crdownload");
}

class FolderProducer : public LiveProducer {
 public:
  FolderProducer(std::string path, const LiveOptions& options)
      : path_(std::move(path)), poll_s_(std::max(0.01, options.poll_s)), follow_(options.follow) {}

  Result<std::optional<LiveFrame>> Produce(const std::atomic<bool>& stop) override {
    while (!stop) {
      if (waiting_.empty()) {
        if (polled_) {
          // Without following, one more look is due only for files that did not decode yet.
          if (!follow_ && broken_.empty()) return std::nullopt;
          if (!SleepUnlessStopped(poll_s_, stop)) return std::nullopt;
        }
        MINICPM_TRY(Poll());
        continue;
      }
      const Candidate candidate = std::move(waiting_.front());
      waiting_.pop_front();
      if (auto frame = Take(candidate)) return frame;
    }
    return std::nullopt;
  }

  std::vector<std::string> TakeWarnings() override { return std::exchange(warnings_, {}); }
  double fps() const override { return 0; }

 private:
  // Files that are new or changed, oldest first.
  Status Poll() {
    polled_ = true;
    std::error_code error;
    fs::directory_iterator entry(path_, error);
    if (error) return Fail(ErrorCode::kIo, Printable(path_, 300) + ": cannot read the folder: " + error.message());
    std::map<std::string, Stamp> there;
    std::vector<Candidate> found;
    for (; entry != fs::directory_iterator(); entry.increment(error)) {
      std::string name = entry->path().filename().string();
      std::error_code ignored;  // a file may vanish while we look
      if (IsUnfinishedName(name) || !entry->is_regular_file(ignored)) continue;
      const Stamp stamp{entry->last_write_time(ignored).time_since_epoch().count(), entry->file_size(ignored)};
      if (ignored) continue;
      const auto old = done_.find(name);
      if (old != done_.end() && old->second == stamp) {
        there.insert(*old);
      } else {
        found.push_back({std::move(name), stamp});
      }
      if (error) break;
    }
    if (error) return Fail(ErrorCode::kIo, Printable(path_, 300) + ": cannot read the folder: " + error.message());
    done_ = std::move(there);  // names that are gone are forgotten
    std::erase_if(broken_, [&](const auto& b) {
      return std::none_of(found.begin(), found.end(), [&](const Candidate& c) { return c.name == b.first; });
    });
    std::sort(found.begin(), found.end());
    waiting_.assign(std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
    return {};
  }

  // nullopt: it does not decode. Tried again at the next look, and given up when it has not changed until then.
  std::optional<LiveFrame> Take(const Candidate& candidate) {
    auto image = LoadImage((fs::path(path_) / candidate.name).string());
    if (!image.has_value()) {
      const auto before = broken_.find(candidate.name);
      if (before == broken_.end() || before->second != candidate.stamp) {
        broken_[candidate.name] = candidate.stamp;
        return std::nullopt;
      }
      broken_.erase(before);
      done_[candidate.name] = candidate.stamp;
      warnings_.push_back(image.error().message);
      return std::nullopt;
    }
    broken_.erase(candidate.name);
    done_[candidate.name] = candidate.stamp;
    LiveFrame frame;
    if (next_ == 0) first_ns_ = candidate.stamp.changed_ns;
    frame.number = next_++;
    last_time_s_ = std::max(last_time_s_, static_cast<double>(candidate.stamp.changed_ns - first_ns_) / 1e9);
    frame.time_s = last_time_s_;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    frame.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    frame.name = candidate.name;
    frame.image = std::move(image).value();
    return frame;
  }

  std::string path_;
  double poll_s_;
  bool follow_;
  bool polled_ = false;
  std::deque<Candidate> waiting_;
  std::map<std::string, Stamp> done_;    // handed out, or given up
  std::map<std::string, Stamp> broken_;  // did not decode at the last look
  std::vector<std::string> warnings_;
  int64_t next_ = 0;
  int64_t first_ns_ = 0;
  double last_time_s_ = 0;
};

}  // namespace

Result<std::unique_ptr<LiveProducer>> OpenFolderProducer(const std::string& path, const LiveOptions& options) {
  std::error_code error;
  const fs::directory_iterator entries(path, error);
  if (error) return Fail(ErrorCode::kIo, Printable(path, 300) + ": cannot read the folder: " + error.message());
  return std::make_unique<FolderProducer>(path, options);
}

}  // namespace minicpm
