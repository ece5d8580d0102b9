// Y4M: colours against the formula in doubles, layouts, headers, and files that break at every byte.
#include "video/y4m.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/picture.h"
#include "tests/support/temp_dir.h"
#include "video/yuv.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

Result<std::unique_ptr<VideoReader>> Open(const std::string& bytes, const VideoLimits& limits = {}) {
  return OpenY4m(MemorySource(std::as_bytes(std::span(bytes)), "clip.y4m"), limits);
}

std::string Planes(size_t n, int seed) {
  const Image pattern = PatternPicture(static_cast<int>(n), 1 + seed);
  return {pattern.rgb.end() - static_cast<std::ptrdiff_t>(n), pattern.rgb.end()};
}

// BT.601, one pixel, limited range.
std::vector<double> Expected(double y, double cb, double cr) {
  const double l = (y - 16) / 219, u = (cb - 128) / 224, v = (cr - 128) / 224;
  const double r = l + 1.402 * v, b = l + 1.772 * u;
  return {255 * r, 255 * (l - 0.299 / 0.587 * 1.402 * v - 0.114 / 0.587 * 1.772 * u), 255 * b};
}

void ExpectPixel(const Image& image, int x, int y, const std::vector<double>& expected) {
  for (int c = 0; c < 3; ++c) {
    const double clipped = std::clamp(expected[c], 0.0, 255.0);
    EXPECT_NEAR(image.rgb[3 * (y * image.width + x) + c], clipped, 0.51) << x << ", " << y << ", channel " << c;
  }
}

TEST(Y4m, EveryLayoutReadsItsChroma) {
  struct Case {
    const char* tag;
    int x, y;
  };
  for (const Case c : {Case{"420jpeg", 2, 2}, Case{"420mpeg2", 2, 2}, Case{"420paldv", 2, 2}, Case{"420", 2, 2},
                       Case{"422", 2, 1}, Case{"444", 1, 1}}) {
    for (const int width : {1, 2, 5, 8}) {
      for (const int height : {1, 3, 4}) {
        const int cw = (width + c.x - 1) / c.x, ch = (height + c.y - 1) / c.y;
        const std::string planes = Planes(static_cast<size_t>(width * height + 2 * cw * ch), 3);
        const std::string file = "YUV4MPEG2 W" + std::to_string(width) + " H" + std::to_string(height) +
                                 " F25:1 Ip A1:1 C" + c.tag + "\nFRAME\n" + planes;
        const Image image = Open(file).value()->Frame(0).value();
        ASSERT_EQ(image.width, width);
        ASSERT_EQ(image.height, height);
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; ++x) {
            const auto at = [&](int i) {
              return static_cast<double>(static_cast<uint8_t>(planes[static_cast<size_t>(i)]));
            };
            const int chroma = width * height + y / c.y * cw + x / c.x;
            ExpectPixel(image, x, y, Expected(at(y * width + x), at(chroma), at(chroma + cw * ch)));
          }
        }
      }
    }
  }
}

TEST(Y4m, RangeOfGreyAndFullRange) {
  const auto pixel = [](const std::string& parameters, const std::string& planes) {
    return Open("YUV4MPEG2 W1 H1 " + parameters + "\nFRAME\n" + planes).value()->Frame(0).value().rgb;
  };
  using Rgb = std::vector<uint8_t>;
  EXPECT_EQ(pixel("Cmono", "\x7f"), (Rgb{127, 127, 127}));
  EXPECT_EQ(pixel("Cmono XCOLORRANGE=LIMITED", "\xeb"), (Rgb{255, 255, 255}));
  EXPECT_EQ(pixel("C444", "\xeb\x80\x80"), (Rgb{255, 255, 255}));
  EXPECT_EQ(pixel("C444 XCOLORRANGE=FULL", "\xeb\x80\x80"), (Rgb{235, 235, 235}));
  EXPECT_EQ(pixel("C444 XCOLORRANGE=FULL", "\x4c\x55\xff"), (Rgb{254, 0, 0}));
}

TEST(Y4m, CountsFramesAndJumps) {
  std::string file = "YUV4MPEG2 W2 H2 F30000:1001 Cmono\n";
  for (int i = 0; i < 5; ++i) {
    file += i == 2 ? "FRAME Ip XSOMETHING\n" : "FRAME\n";
    file += std::string(4, static_cast<char>(10 * i));
  }
  const auto reader = Open(file).value();
  EXPECT_EQ(reader->info().n_frames, 5);
  EXPECT_DOUBLE_EQ(reader->info().fps, 30000.0 / 1001);
  EXPECT_DOUBLE_EQ(reader->info().duration_s, 5 * 1001.0 / 30000);
  EXPECT_FALSE(reader->info().has_sound);
  for (const int i : {4, 0, 3, 3, 1, 2}) EXPECT_EQ(reader->Frame(i).value().rgb[0], 10 * i);
}

TEST(Y4m, EveryPrefixIsOneClearSentenceOrAWholeVideo) {
  std::string file = "YUV4MPEG2 W3 H2 F25:1 C420jpeg\n";
  const size_t header = file.size();
  for (int i = 0; i < 3; ++i) file += "FRAME\n" + Planes(10, i);
  for (size_t n = 0; n < file.size(); ++n) {
    const auto reader = Open(file.substr(0, n));
    const bool whole = n > header && (n - header) % 16 == 0;
    ASSERT_EQ(reader.has_value(), whole) << n;
    if (whole) {
      EXPECT_EQ(reader.value()->info().n_frames, static_cast<int64_t>((n - header) / 16));
      continue;
    }
    EXPECT_EQ(reader.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(reader.error().message.starts_with("clip.y4m: ")) << reader.error().message;
  }
}

TEST(Y4m, HostileHeaders) {
  const auto message = [](const std::string& file) { return Open(file).error().message; };
  EXPECT_THAT(message("YUV4MPEG2 W0 H2\nFRAME\n"), HasSubstr("expected 1 to 65535"));
  EXPECT_THAT(message("YUV4MPEG2 W-3 H2\n"), HasSubstr("expected 1 to 65535"));
  EXPECT_THAT(message("YUV4MPEG2 W99999999999 H2\n"), HasSubstr("expected 1 to 65535"));
  EXPECT_THAT(message("YUV4MPEG2 H2\nFRAME\n"), HasSubstr("width and height"));
  EXPECT_THAT(message("YUV4MPEG2 W2 H2 F25\nFRAME\n"), HasSubstr("frame rate"));
  EXPECT_THAT(message("YUV4MPEG2 W2 H2 F25:0\nFRAME\n"), HasSubstr("30000:1001"));
  EXPECT_THAT(message("YUV4MPEG2 W2 H2 C420p10\n"), HasSubstr("FFmpeg plugin"));
  EXPECT_THAT(message("YUV4MPEG2 W65535 H65535\nFRAME\n"), HasSubstr("the limit is 64000000"));
  EXPECT_THAT(message("YUV4MPEG2 W2 H2\n"), HasSubstr("no frames"));
  EXPECT_THAT(message("YUV4MPEG2 W1 H1 Cmono\nFRAMES\nx"), HasSubstr("FRAME line"));
  EXPECT_THAT(message("YUV4MPEG2 W1 H1 " + std::string(5000, 'X')), HasSubstr("4096"));
  VideoLimits limits;
  limits.max_frames = 1;
  EXPECT_THAT(Open("YUV4MPEG2 W1 H1 Cmono\nFRAME\nxFRAME\nx", limits).error().message, HasSubstr("more than 1 frames"));
}

TEST(OpenVideo, TellsY4mByItsContent) {
  const test::TempDir folder;
  const std::string path = folder.Write("film.mp4", "YUV4MPEG2 W1 H1 Cmono\nFRAME\n\x20");
  EXPECT_EQ(OpenVideo(path, nullptr).value()->info().format, "y4m");
  EXPECT_FALSE(LoadSound(path, nullptr).value().has_value());
  EXPECT_THAT(OpenVideo(folder.Write("a.mp4", std::string("\0\0\0\x20"
                                                          "ftypisom",
                                                          12)),
                        nullptr)
                  .error()
                  .message,
              HasSubstr("FFmpeg plugin"));
  EXPECT_THAT(OpenVideo(folder.Write("b.mp4", ""), nullptr).error().message, HasSubstr("empty"));
  EXPECT_EQ(OpenVideo(folder.File("none.mp4"), nullptr).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(LoadSound(folder.File("none.wav"), nullptr).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(OpenVideo(folder.path(), nullptr).has_value());
}

}  // namespace
}  // namespace minicpm
