// Writes frames as they come; lengths and counts are put into the headers at the end of each part. Not for sound.
#include "video/avi_writer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "os/positioned_file.h"
#include "video/jpeg_encoder.h"
#include "video/little_endian.h"
#include "video/pending_file.h"

namespace minicpm {
namespace {

constexpr int kQuality = 90;
constexpr uint32_t kScale = 100'000;  // the rate is a whole number of frames in so many seconds
constexpr size_t kMaxParts = 256;
constexpr int64_t kMaxFrames = 20'000'000;
constexpr uint32_t kHasIndex = 0x10;  // AVIF_HASINDEX, AVIIF_KEYFRAME

// Lengths that are not known yet are 0; a reader then goes by the chunks, so that a file cut off early can be read.
std::string Headers(const VideoWriterOptions& options, const std::vector<std::pair<uint64_t, uint32_t>>& parts,
                    const std::vector<uint32_t>& frames_of_part, uint32_t n_frames) {
  const auto rate = static_cast<uint32_t>(std::lround(options.fps * kScale));
  const auto width = static_cast<uint32_t>(options.width);
  const auto height = static_cast<uint32_t>(options.height);
  std::string avih;
  for (const uint32_t v :
       {static_cast<uint32_t>(std::lround(1e6 / options.fps)), 0u, 0u, kHasIndex,
        frames_of_part.empty() ? n_frames : frames_of_part[0], 0u, 1u, 0u, width, height, 0u, 0u, 0u, 0u}) {
    AppendLe(avih, v, 4);
  }
  std::string strh = "vidsMJPG";
  for (const uint32_t v : {0u, 0u, 0u, kScale, rate, 0u, n_frames, 0u, 0xffffffffu, 0u, 0u, height << 16 | width}) {
    AppendLe(strh, v, 4);
  }
  std::string strf;
  for (const uint32_t v : {40u, width, height, 24u << 16 | 1u}) AppendLe(strf, v, 4);
  strf += "MJPG";
  for (const uint32_t v : {3 * width * height, 0u, 0u, 0u, 0u}) AppendLe(strf, v, 4);
  std::string indx;
  AppendLe(indx, 4, 4);  // 4 words an entry, an index of indices
  AppendLe(indx, parts.size(), 4);
  indx += "00dc" + std::string(12, '\0');
  for (size_t i = 0; i < parts.size(); ++i) {
    AppendLe(indx, parts[i].first, 8);
    AppendLe(indx, parts[i].second, 4);
    AppendLe(indx, frames_of_part[i], 4);
  }
  indx.resize(24 + 16 * kMaxParts);
  const auto chunk = [](std::string_view name, const std::string& data) {
    std::string out(name);
    AppendLe(out, data.size(), 4);
    return out + data;
  };
  const std::string strl = "strl" + chunk("strh", strh) + chunk("strf", strf) + chunk("indx", indx);
  std::string total;
  AppendLe(total, n_frames, 4);
  const std::string odml = "odml" + chunk("dmlh", total);
  return chunk("LIST", "hdrl" + chunk("avih", avih) + chunk("LIST", strl) + chunk("LIST", odml));
}

class AviWriter : public VideoWriter {
 public:
  AviWriter(std::string name, const VideoWriterOptions& options, uint64_t part_bytes, PendingFile pending,
            PositionedFile file)
      : name_(std::move(name)),
        options_(options),
        part_bytes_(part_bytes),
        pending_(std::move(pending)),
        file_(std::move(file)) {}

  Status Begin() {
    std::string out = "RIFF" + std::string(4, '\0') + "AVI " + Headers(options_, {}, {}, 0) + "LIST";
    movi_ = out.size();
    return Append(out + std::string(4, '\0') + "movi");
  }

  Status Write(const Image& frame, double time_s) override {
    if (frame.width != options_.width || frame.height != options_.height) {
      return Fail(ErrorCode::kInvalidArgument, name_ + ": a frame of " + std::to_string(frame.width) + " x " +
                                                   std::to_string(frame.height) + " pixels, the video has " +
                                                   std::to_string(options_.width) + " x " +
                                                   std::to_string(options_.height));
    }
    const double place = std::round(time_s * options_.fps);
    if (!(time_s >= last_time_) || !(place < static_cast<double>(kMaxFrames))) {
      return Fail(ErrorCode::kInvalidArgument, name_ + ": a frame at " + std::to_string(time_s) + " s after one at " +
                                                   std::to_string(last_time_) + " s");
    }
    last_time_ = time_s;
    const auto number = static_cast<int64_t>(place);
    MINICPM_ASSIGN(auto jpeg, EncodeJpeg(frame, kQuality));
    // Two frames for one place: the later one is shown.
    if (held_.has_value() && number > held_number_) MINICPM_TRY(WriteHeld());
    held_ = std::move(jpeg);
    held_number_ = number;
    return {};
  }

  Status Finish() override {
    // On a full disk the last frame or the index may not find room: Write said so, and what there is becomes the video.
    if (held_.has_value() && !WriteHeld().has_value()) held_.reset();
    if (n_frames_ == 0) return Fail(ErrorCode::kInvalidArgument, name_ + ": a video without a single frame");
    const size_t n_parts = parts_.size();
    if (!EndPart().has_value()) MINICPM_TRY(EndPartWithoutIndex(n_parts));
    MINICPM_TRY(file_.WriteAt(12, Headers(options_, parts_, frames_of_part_, static_cast<uint32_t>(n_frames_))));
    file_ = PositionedFile();
    return pending_.Commit();
  }

 private:
  struct Entry {
    uint32_t offset;  // of the data, from the list's word "movi"
    uint32_t bytes;
  };

  Status Append(std::string_view bytes) {
    MINICPM_TRY(file_.WriteAt(end_, bytes));
    end_ += bytes.size();
    return {};
  }
  Status PutLength(uint64_t at, uint64_t bytes) {
    std::string length;
    AppendLe(length, bytes, 4);
    return file_.WriteAt(at, length);
  }

  // Empty chunks up to its place, which show the frame before it once more, then the frame.
  Status WriteHeld() {
    while (n_frames_ < held_number_) MINICPM_TRY(WriteChunk({}));
    const auto* text = reinterpret_cast<const char*>(held_->data());
    MINICPM_TRY(WriteChunk({text, held_->size()}));
    held_.reset();
    return {};
  }

  Status WriteChunk(std::string_view data) {
    if (end_ - movi_ > part_bytes_) MINICPM_TRY(NextPart());
    std::string out = "00dc";
    AppendLe(out, data.size(), 4);
    const Entry entry = {static_cast<uint32_t>(end_ + 8 - (movi_ + 4)), static_cast<uint32_t>(data.size())};
    out += data;
    if (out.size() % 2 != 0) out += '\0';
    MINICPM_TRY(Append(out));
    entries_.push_back(entry);
    ++n_frames_;
    return {};
  }

  Status NextPart() {
    if (parts_.size() + 1 == kMaxParts) {
      return Fail(ErrorCode::kResourceExhausted, name_ + ": the video has grown to " + std::to_string(end_) +
                                                     " bytes, which is the most an AVI file is written with");
    }
    MINICPM_TRY(EndPart());
    riff_ = end_;
    movi_ = end_ + 16;
    return Append("RIFF" + std::string(4, '\0') + "AVIXLIST" + std::string(4, '\0') + "movi");
  }

  // The part's own index, in the first part also the old form of it, and the lengths.
  Status EndPart() {
    std::string index = "ix00";
    AppendLe(index, 24 + 8 * entries_.size(), 4);
    AppendLe(index, 2 | 1u << 24, 4);  // 2 words an entry, an index of chunks
    AppendLe(index, entries_.size(), 4);
    index += "00dc";
    AppendLe(index, movi_ + 4, 8);
    AppendLe(index, 0, 4);
    for (const Entry& e : entries_) {
      AppendLe(index, e.offset, 4);
      AppendLe(index, e.bytes, 4);
    }
    data_end_ = end_;
    MINICPM_TRY(Append(index));
    parts_.emplace_back(data_end_, static_cast<uint32_t>(index.size()));
    frames_of_part_.push_back(static_cast<uint32_t>(entries_.size()));
    MINICPM_TRY(PutLength(movi_, end_ - movi_ - 4));
    if (riff_ == 0) {
      std::string old = "idx1";
      AppendLe(old, 16 * entries_.size(), 4);
      for (const Entry& e : entries_) {
        old += "00dc";
        AppendLe(old, e.bytes == 0 ? 0 : kHasIndex, 4);
        AppendLe(old, e.offset - 8, 4);
        AppendLe(old, e.bytes, 4);
      }
      MINICPM_TRY(Append(old));
    }
    MINICPM_TRY(PutLength(riff_ + 4, end_ - riff_ - 8));
    entries_.clear();
    return {};
  }

  // Only lengths, which stand in bytes that are there already. Players then look at every chunk.
  Status EndPartWithoutIndex(size_t n_parts) {
    parts_.resize(n_parts);
    frames_of_part_.resize(n_parts);
    end_ = data_end_;
    MINICPM_TRY(PutLength(movi_, end_ - movi_ - 4));
    return PutLength(riff_ + 4, end_ - riff_ - 8);
  }

  std::string name_;
  VideoWriterOptions options_;
  uint64_t part_bytes_;
  PendingFile pending_;
  PositionedFile file_;
  uint64_t end_ = 0;
  uint64_t data_end_ = 0;  // behind the frames of the part that was ended last
  uint64_t riff_ = 0;      // where the present part begins
  uint64_t movi_ = 0;      // where the length of its list of frames stands
  std::vector<Entry> entries_;
  std::vector<std::pair<uint64_t, uint32_t>> parts_;  // of each finished part: place and bytes of its index
  std::vector<uint32_t> frames_of_part_;
  int64_t n_frames_ = 0;
  double last_time_ = 0;
  std::optional<std::vector<std::byte>> held_;  // the last frame, not yet written
  int64_t held_number_ = 0;
};

}  // namespace

Result<std::unique_ptr<VideoWriter>> OpenAviWriter(const std::string& path, const VideoWriterOptions& options,
                                                   uint64_t part_bytes) {
  MINICPM_ASSIGN(PendingFile pending, PendingFile::Create(path));
  MINICPM_ASSIGN(PositionedFile file, PositionedFile::OpenWrite(pending.temporary()));
  auto writer = std::make_unique<AviWriter>(Printable(path, 300), options, std::min<uint64_t>(part_bytes, 1ull << 30),
                                            std::move(pending), std::move(file));
  MINICPM_TRY(writer->Begin());
  return writer;
}

}  // namespace minicpm
