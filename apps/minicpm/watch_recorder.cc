// Implementation of watch_recorder.h.
#include "watch_recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace minicpm::cli {

OverlayRecorder::OverlayRecorder(std::unique_ptr<TextDrawer> drawer, Options options)
    : drawer_(std::move(drawer)), options_(std::move(options)) {}

void OverlayRecorder::SetCaption(std::string text, bool alert) {
  const std::lock_guard lock(mutex_);
  caption_ = std::move(text);
  alert_ = alert;
}

Status OverlayRecorder::Open(const LiveFrame& frame) {
  width_ = frame.image.width;
  height_ = frame.image.height;
  first_s_ = last_s_ = frame.time_s;
  MINICPM_ASSIGN(writer_, options_.open({.width = width_, .height = height_, .fps = options_.fps}));
  return {};
}

Status OverlayRecorder::Add(const LiveFrame& frame) {
  const std::lock_guard lock(mutex_);
  if (failure_.has_value()) return {};
  if (writer_ == nullptr) MINICPM_TRY(Open(frame));
  Image image = frame.image.width == width_ && frame.image.height == height_ ? frame.image
                                                                             : FitImage(frame.image, width_, height_);
  TextStyle style;
  if (alert_) style.box = {200, 0, 0};
  drawer_->Draw(caption_, style, image);
  last_s_ = std::max(last_s_, frame.time_s);
  const double shown_s = options_.evenly ? static_cast<double>(n_frames_) / options_.fps : last_s_ - first_s_;
  ++n_frames_;
  Status written = writer_->Write(image, shown_s);
  if (!written.has_value()) {
    options_.warn("--save-video: " + written.error().message + "; the watching goes on without recording");
    failure_ = std::move(written).error();
    const Status finished = writer_->Finish();
    if (!finished.has_value()) options_.warn("--save-video: " + finished.error().message);
    writer_.reset();
  }
  return {};
}

Status OverlayRecorder::Finish() {
  const std::lock_guard lock(mutex_);
  if (failure_.has_value()) return std::unexpected(*failure_);
  if (writer_ == nullptr) return Fail(ErrorCode::kNotFound, "no frame came, so no video was written");
  const std::unique_ptr<VideoWriter> writer = std::move(writer_);
  return writer->Finish();
}

Image FitImage(const Image& image, int width, int height) {
  const double scale = std::min(static_cast<double>(width) / image.width, static_cast<double>(height) / image.height);
  const int inner_width = std::clamp(static_cast<int>(std::lround(image.width * scale)), 1, width);
  const int inner_height = std::clamp(static_cast<int>(std::lround(image.height * scale)), 1, height);
  const Image inner = ResizeBicubic(image, inner_width, inner_height);
  Image fitted{.width = width, .height = height, .rgb = std::vector<uint8_t>(size_t{3} * width * height)};
  const int x = (width - inner_width) / 2;
  const int y = (height - inner_height) / 2;
  for (int row = 0; row < inner_height; ++row) {
    std::copy_n(inner.rgb.begin() + ptrdiff_t{3} * row * inner_width, 3 * inner_width,
                fitted.rgb.begin() + ptrdiff_t{3} * ((ptrdiff_t{row} + y) * width + x));
  }
  return fitted;
}

}  // namespace minicpm::cli
