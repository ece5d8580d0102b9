// Motion JPEG AVI: what our writer wrote is read back, long files in parts, broken indices, PCM, every prefix.
#include "video/avi.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"
#include "video/avi_chunks.h"
#include "video/avi_writer.h"
#include "video/jpeg_encoder.h"
#include "video/little_endian.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

constexpr int kWidth = 24;
constexpr int kHeight = 16;

// One colour, which survives JPEG nearly unchanged and tells frames apart.
Image Plain(int shade) {
  return {kWidth, kHeight, std::vector<uint8_t>(3 * kWidth * kHeight, static_cast<uint8_t>(shade))};
}

int ShadeOf(const Image& image) { return image.rgb[3 * (kWidth * 5 + 7)]; }

std::string Written(int n_frames, uint64_t part_bytes = 1 << 30) {
  const test::TempDir folder;
  const std::string path = folder.File("clip.avi");
  auto writer = OpenAviWriter(path, {.width = kWidth, .height = kHeight, .fps = 10}, part_bytes).value();
  for (int i = 0; i < n_frames; ++i) EXPECT_TRUE(writer->Write(Plain(20 + 5 * i), i / 10.0).has_value());
  EXPECT_TRUE(writer->Finish().has_value());
  return test::ReadFileBytes(path);
}

Result<std::unique_ptr<VideoReader>> Open(const std::string& bytes, const VideoLimits& limits = {}) {
  return OpenAvi(MemorySource(std::as_bytes(std::span(bytes)), "clip.avi"), limits);
}

void ExpectShades(VideoReader& reader, int n_frames) {
  ASSERT_EQ(reader.info().n_frames, n_frames);
  for (int i = n_frames - 1; i >= 0; --i) EXPECT_NEAR(ShadeOf(reader.Frame(i).value()), 20 + 5 * i, 1) << i;
}

std::string Le(uint64_t value, int bytes) {
  std::string out;
  AppendLe(out, value, bytes);
  return out;
}
std::string Chunk(const std::string& name, const std::string& data) {
  return name + Le(data.size(), 4) + data + (data.size() % 2 != 0 ? std::string(1, '\0') : "");
}

TEST(Avi, ReadsWhatItWrote) {
  const std::string file = Written(7);
  const auto reader = Open(file).value();
  EXPECT_EQ(reader->info().width, kWidth);
  EXPECT_EQ(reader->info().height, kHeight);
  EXPECT_DOUBLE_EQ(reader->info().fps, 10);
  EXPECT_DOUBLE_EQ(reader->info().duration_s, 0.7);
  EXPECT_EQ(reader->info().format, "avi/mjpeg");
  EXPECT_FALSE(reader->info().has_sound);
  ExpectShades(*reader, 7);
}

TEST(Avi, LongRecordsComeInParts) {
  const std::string file = Written(20, 2000);
  size_t parts = 0;
  for (size_t at = file.find("AVIX"); at != std::string::npos; at = file.find("AVIX", at + 1)) ++parts;
  EXPECT_GE(parts, 3u);
  ExpectShades(*Open(file).value(), 20);
  // Without its index of indices it is walked over, all parts of it.
  std::string walked = file;
  walked.replace(walked.find("indx"), 4, "JUNK");
  ExpectShades(*Open(walked).value(), 20);
}

TEST(Avi, BrokenOrMissingIndexIsWalkedOver) {
  const std::string file = Written(7);
  std::string old = file;  // the old index alone
  old.replace(old.find("indx"), 4, "JUNK");
  ExpectShades(*Open(old).value(), 7);
  std::string none = old;  // and not even that
  none.replace(none.find("idx1"), 4, "JUNK");
  ExpectShades(*Open(none).value(), 7);
  std::string lying = old;  // pointing into the middle of frames
  for (size_t at = lying.find("idx1") + 16; at < lying.size(); at += 16) lying[at] = static_cast<char>(lying[at] + 2);
  ExpectShades(*Open(lying).value(), 7);
  std::string cut = file.substr(0, file.find("ix00"));  // power cut: no lengths, no index
  cut.replace(4, 4, Le(0, 4));
  cut.replace(cut.find("movi") - 4, 4, Le(0, 4));
  cut.replace(cut.find("indx") + 12, 4, Le(0, 4));
  ExpectShades(*Open(cut).value(), 7);
}

TEST(Avi, EmptyChunksRepeatTheFrameBefore) {
  const test::TempDir folder;
  const std::string path = folder.File("clip.avi");
  auto writer = OpenVideoWriter(path, {.width = kWidth, .height = kHeight, .fps = 10}, nullptr).value();
  ASSERT_TRUE(writer->Write(Plain(50), 0).has_value());
  ASSERT_TRUE(writer->Write(Plain(60), 0.42).has_value());
  ASSERT_TRUE(writer->Write(Plain(200), 0.44).has_value());  // the same place: the later one stays
  ASSERT_FALSE(writer->Write(Plain(1), 0.3).has_value());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->Finish().has_value());
  const auto reader = OpenVideo(path, nullptr).value();
  ASSERT_EQ(reader->info().n_frames, 5);
  EXPECT_NEAR(ShadeOf(reader->Frame(3).value()), 50, 1);
  EXPECT_NEAR(ShadeOf(reader->Frame(4).value()), 200, 1);
}

TEST(Avi, ADroppedWriterLeavesNothing) {
  const test::TempDir folder;
  {
    auto writer =
        OpenVideoWriter(folder.File("a.avi"), {.width = kWidth, .height = kHeight, .fps = 10}, nullptr).value();
    ASSERT_TRUE(writer->Write(Plain(50), 0).has_value());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto error = [&](const std::string& name, VideoWriterOptions options) {
    return OpenVideoWriter(folder.File(name), options, nullptr).error().message;
  };
  EXPECT_THAT(error("a.mp4", {.width = 2, .height = 2}), HasSubstr("FFmpeg plugin"));
  EXPECT_THAT(error("a.txt", {.width = 2, .height = 2}), HasSubstr(".txt"));
  EXPECT_THAT(error("a.avi", {.width = 0, .height = 2}), HasSubstr("0 x 2"));
  EXPECT_THAT(error("no/a.avi", {.width = 2, .height = 2}), HasSubstr("a.avi"));
}

TEST(Avi, FramesWithoutHuffmanTablesAreRead) {
  // As many cameras send them. The tables are the four after each FFC4.
  std::string file = Written(2);
  std::string jpeg(file.substr(file.find("\xff\xd8"),
                               Le32(std::as_bytes(std::span(file)), file.find("00dc", file.find("movi")) + 4)));
  for (size_t at = jpeg.find("\xff\xc4"); at != std::string::npos; at = jpeg.find("\xff\xc4")) {
    jpeg.erase(at, 2 + (static_cast<uint8_t>(jpeg[at + 2]) << 8 | static_cast<uint8_t>(jpeg[at + 3])));
  }
  const size_t movi = file.find("movi");
  std::string bare = file.substr(0, movi - 8) + Chunk("LIST", "movi" + Chunk("00dc", jpeg));
  bare.replace(4, 4, Le(bare.size() - 8, 4));
  bare.replace(bare.find("indx"), 4, "JUNK");
  EXPECT_NEAR(ShadeOf(Open(bare).value()->Frame(0).value()), 20, 1);
}

// A file with one frame and a sound track of the given format, whose data is cut into chunks of `piece` bytes.
std::string WithSound(uint32_t tag, int channels, int rate, int bits, const std::string& data, size_t piece) {
  std::string video = Written(1);
  const size_t frame = video.find("00dc", video.find("movi"));
  const uint32_t frame_bytes = Le32(std::as_bytes(std::span(video)), frame + 4);
  const auto stream = [](const std::string& kind, uint32_t scale, uint32_t per, const std::string& format) {
    const std::string head = kind + std::string(16, '\0') + Le(scale, 4) + Le(per, 4) + std::string(28, '\0');
    return Chunk("LIST", "strl" + Chunk("strh", head) + Chunk("strf", format));
  };
  const std::string picture =
      Le(40, 4) + Le(kWidth, 4) + Le(kHeight, 4) + Le(24 << 16 | 1, 4) + "MJPG" + std::string(20, '\0');
  const int block = channels * bits / 8;
  const std::string wave =
      Le(tag, 2) + Le(channels, 2) + Le(rate, 4) + Le(rate * block, 4) + Le(block, 2) + Le(bits, 2);
  std::string movi = "movi" + Chunk("00dc", video.substr(frame + 8, frame_bytes));
  for (size_t at = 0; at < data.size(); at += piece) movi += Chunk("01wb", data.substr(at, piece));
  const std::string body =
      "AVI " +
      Chunk("LIST", "hdrl" + Chunk("avih", std::string(56, '\0')) + stream("vids", 1, 10, picture) +
                        stream("auds", block, rate * block, wave)) +
      Chunk("LIST", movi);
  return Chunk("RIFF", body);
}

Result<std::optional<Samples>> Sound(const std::string& file) {
  const auto source = MemorySource(std::as_bytes(std::span(file)), "clip.avi");
  return LoadAviSound(*source, {});
}

TEST(AviSound, PcmOfEveryWidthInPiecesOfAnySize) {
  constexpr int kSamples = 1600;
  for (const int bits : {8, 16, 24, 32}) {
    std::string data;
    for (int i = 0; i < kSamples; ++i) {
      const double v = 0.5 * std::sin(i * 0.05);
      if (bits == 8) data += Le(static_cast<uint64_t>(std::lround(v * 127) + 128), 1);
      if (bits != 8) data += Le(static_cast<uint64_t>(std::llround(v * std::ldexp(1, bits - 1))), bits / 8);
    }
    for (const size_t piece : {size_t{7}, size_t{1000}, data.size()}) {
      const auto samples = Sound(WithSound(1, 1, 16000, bits, data, piece)).value().value();
      ASSERT_EQ(samples.size(), static_cast<size_t>(kSamples)) << bits;
      for (int i = 0; i < kSamples; ++i) ASSERT_NEAR(samples[i], 0.5 * std::sin(i * 0.05), bits == 8 ? 0.01 : 1e-4);
    }
  }
}

TEST(AviSound, OtherCases) {
  EXPECT_FALSE(Sound(Written(1)).value().has_value());
  EXPECT_EQ(Sound(WithSound(1, 2, 48000, 16, std::string(4 * 4800, '\0'), 999)).value().value().size(), 1600u);
  EXPECT_TRUE(Sound(WithSound(1, 1, 16000, 16, "", 10)).value().value().empty());
  EXPECT_EQ(Sound(WithSound(0x55, 1, 16000, 16, "xx", 10)).error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(Sound(WithSound(1, 0, 16000, 16, "xx", 10)).has_value());
  EXPECT_FALSE(Sound(WithSound(1, 1, 0, 16, "xx", 10)).has_value());
  const auto reader = Open(WithSound(1, 1, 16000, 16, "abcd", 2)).value();
  EXPECT_TRUE(reader->info().has_sound);
  EXPECT_EQ(reader->info().n_frames, 1);
}

TEST(Avi, EveryPrefixIsOneClearSentenceOrAWholeVideo) {
  const std::string file = Written(3);
  const size_t movi_end = file.find("idx1");
  for (size_t n = 0; n < file.size(); ++n) {
    const auto reader = Open(file.substr(0, n));
    if (reader.has_value()) {
      EXPECT_GE(n, movi_end) << "half of the frames passed for all of them";
      EXPECT_EQ(reader.value()->info().n_frames, 3);
      continue;
    }
    EXPECT_LT(n, movi_end + 8);
    EXPECT_EQ(reader.error().code, ErrorCode::kCorrupt) << reader.error().message;
    EXPECT_TRUE(reader.error().message.starts_with("clip.avi: ")) << reader.error().message;
  }
}

TEST(Avi, HostileFiles) {
  const std::string file = Written(3);
  const auto message = [](const std::string& bytes) {
    auto reader = Open(bytes);
    return reader.has_value() ? "read" : reader.error().message;
  };
  std::string other = file;
  other.replace(other.rfind("MJPG", other.find("movi")), 4, "H264");
  EXPECT_THAT(message(other), HasSubstr("FFmpeg plugin"));
  std::string garbage = file;
  const size_t frame = garbage.find("\xff\xd8", garbage.find("movi"));
  garbage[frame] = 'x';
  EXPECT_THAT(message(garbage), HasSubstr("frame 0 is no JPEG"));
  std::string later = file;
  later[later.find("\xff\xd8", frame + 2)] = 'x';
  const auto reader = Open(later).value();
  EXPECT_TRUE(reader->Frame(0).has_value());
  EXPECT_THAT(reader->Frame(1).error().message, HasSubstr("frame 1"));
  VideoLimits limits;
  limits.max_frames = 2;
  EXPECT_EQ(Open(file, limits).error().code, ErrorCode::kResourceExhausted);
  limits = {};
  limits.max_pixels = 100;
  EXPECT_EQ(Open(file, limits).error().code, ErrorCode::kResourceExhausted);
  std::string endless = file;  // a list that contains itself is not possible, one longer than the file is
  endless.replace(endless.find("LIST") + 4, 4, Le(0xfffffff0, 4));
  EXPECT_THAT(message(endless), HasSubstr("clip.avi: broken AVI file"));
}

}  // namespace
}  // namespace minicpm
