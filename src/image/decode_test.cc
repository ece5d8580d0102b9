// Decoding against the committed pictures: every format and mode, orientation, limits, error sentences.
// Broken files are in hostile_test.cc.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "image/codec.h"
#include "image/image.h"
#include "image/test_pictures.h"

namespace minicpm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Decode, EveryCommittedPicture) {
  const std::vector<TestPicture> pictures = TestPictures();
  ASSERT_GE(pictures.size(), 140u);
  for (const TestPicture& picture : pictures) {
    const Result<Image> image = LoadImage(TestPicturePath(picture.file));
    ASSERT_TRUE(image.has_value()) << image.error().message;
    EXPECT_EQ(image->width, picture.width) << picture.file;
    EXPECT_EQ(image->height, picture.height) << picture.file;
    ASSERT_EQ(image->rgb.size(), size_t{3} * picture.width * picture.height) << picture.file;
    EXPECT_EQ(Crc32(image->rgb), picture.crc32) << picture.file;
  }
}

TEST(Decode, TheNameOfAFileMeansNothing) {
  const std::vector<std::byte> bytes = ReadTestPicture("lossless.webp");
  const Result<Image> image = DecodeImage(bytes, "photo.jpg");
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(image->rgb, LoadImage(TestPicturePath("rgb8.png"))->rgb);
}

TEST(Decode, LosslessFormatsAgree) {
  const Image truth = LoadImage(TestPicturePath("rgb8.png")).value();
  for (const char* file : {"rgb8_interlaced.png", "rgb16.png", "lossless.webp", "animated.webp", "rgb_lzw.tif",
                           "tiles.tif", "planes.tif", "big_tiff.tif", "rgb24.bmp", "rgb24_top_down.bmp", "rgb32.bmp"}) {
    EXPECT_EQ(LoadImage(TestPicturePath(file)).value().rgb, truth.rgb) << file;
  }
}

// The stored picture (3 x 2) is 012/345; what must be seen, by the EXIF standard's table of where row 0 and column 0
// lie.
TEST(Orientation, AllEight) {
  struct Case {
    int orientation, width;
    const char* rows;
  };
  constexpr Case kCases[] = {{0, 3, "012345"}, {1, 3, "012345"}, {2, 3, "210543"}, {3, 3, "543210"}, {4, 3, "345012"},
                             {5, 2, "031425"}, {6, 2, "304152"}, {7, 2, "524130"}, {8, 2, "251403"}, {9, 3, "012345"}};
  for (const Case& c : kCases) {
    Image image{.width = 3, .height = 2, .rgb = {}};
    for (int i = 0; i < 6; ++i) image.rgb.insert(image.rgb.end(), 3, static_cast<uint8_t>(i));
    ApplyOrientation(c.orientation, image);
    EXPECT_EQ(image.width, c.width) << c.orientation;
    EXPECT_EQ(image.width * image.height, 6) << c.orientation;
    std::string seen;
    for (int i = 0; i < 6; ++i) seen += static_cast<char>('0' + image.rgb[3 * i]);
    EXPECT_EQ(seen, c.rows) << c.orientation;
  }
}

TEST(Orientation, LargePicturesTurnLikeSmallOnes) {
  const Image image = PatternPicture(131, 70);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Image once = image;
    ApplyOrientation(orientation, once);
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const bool swap = orientation >= 5;
        int sx = swap ? y : x;
        int sy = swap ? x : y;
        if (orientation == 2 || orientation == 3) sx = image.width - 1 - x;
        if (orientation == 4 || orientation == 3) sy = image.height - 1 - y;
        if (orientation == 6 || orientation == 7) sx = image.height - 1 - y;
        if (orientation == 8 || orientation == 7) sy = image.width - 1 - x;
        const size_t from = size_t{3} * (y * image.width + x);
        const size_t to = size_t{3} * (sy * once.width + sx);
        ASSERT_TRUE(std::equal(&image.rgb[from], &image.rgb[from] + 3, &once.rgb[to])) << orientation;
      }
    }
  }
}

TEST(Orientation, FromMetadata) {
  const std::string exif("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26);
  const auto bytes = [](const std::string& s) { return std::as_bytes(std::span(s)); };
  EXPECT_EQ(ExifOrientation(bytes(exif)), 6);
  EXPECT_EQ(ExifOrientation(bytes(std::string("Exif\0\0", 6) + exif)), 6);
  EXPECT_EQ(ExifOrientation(bytes(exif.substr(0, 12))), 0);
  EXPECT_EQ(ExifOrientation({}), 0);
  EXPECT_EQ(XmpOrientation("<x tiff:Orientation=\"8\"/>"), 8);
  EXPECT_EQ(XmpOrientation("<tiff:Orientation>3</tiff:Orientation>"), 3);
  EXPECT_EQ(XmpOrientation("<tiff:Orientation/> tiff:Orientation=\"x\""), 0);
  EXPECT_EQ(XmpOrientation("tiff:Orientation=\""), 0);
  EXPECT_EQ(ChooseOrientation(bytes(exif), "tiff:Orientation=\"3\""), 6);
  EXPECT_EQ(ChooseOrientation({}, "tiff:Orientation=\"3\""), 3);
  EXPECT_EQ(ChooseOrientation({}, "tiff:Orientation=\"9\""), 1);
}

TEST(Limits, BytesAreCountedBeforeReading) {
  const std::string path = TestPicturePath("rgb8.png");
  const Result<Image> image = LoadImage(path, {.max_bytes = 100});
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(image.error().message, HasSubstr("the limit is 100"));
  const std::vector<std::byte> bytes = ReadTestPicture("rgb8.png");
  const Result<Image> decoded = DecodeImage(bytes, "x", {.max_bytes = bytes.size() - 1});
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().message, "x: the picture file has " + std::to_string(bytes.size()) +
                                         " bytes, the limit is " + std::to_string(bytes.size() - 1));
  EXPECT_TRUE(DecodeImage(bytes, "x", {.max_bytes = bytes.size()}).has_value());
}

TEST(Limits, PixelsInEveryFormat) {
  for (const char* file : {"rgb_420.jpg", "rgb8.png", "lossy.webp", "animated.webp", "plain.gif", "rgb_lzw.tif",
                           "ycbcr_subsampled.tif", "rgb24.bmp", "rle8.bmp"}) {
    const std::string path = TestPicturePath(file);
    EXPECT_TRUE(LoadImage(path, {.max_pixels = 37 * 29}).has_value()) << file;
    const Result<Image> image = LoadImage(path, {.max_pixels = 37 * 29 - 1});
    ASSERT_FALSE(image.has_value()) << file;
    EXPECT_EQ(image.error().code, ErrorCode::kResourceExhausted) << file;
    EXPECT_THAT(image.error().message, AllOf(HasSubstr("37 x 29 = 1073 pixels"), HasSubstr("the limit is 1072")));
  }
}

TEST(Errors, OneSentenceThatNamesTheFile) {
  const auto message = [](const std::string& bytes) {
    const Result<Image> image = DecodeImage(std::as_bytes(std::span(bytes)), "a\nb.jpg");
    return image.has_value() ? Error{} : image.error();
  };
  EXPECT_EQ(message("").code, ErrorCode::kCorrupt);
  EXPECT_EQ(message("").message, "a?b.jpg: the picture file is empty");
  EXPECT_EQ(message("<svg>...").code, ErrorCode::kUnsupported);
  EXPECT_EQ(message("\x1b[2J hello").message,
            "a?b.jpg: not a JPEG, PNG, WebP, GIF, TIFF or BMP picture (it begins with \"?[2J hel...\")");
  EXPECT_EQ(message("\xff\xd8\xff").code, ErrorCode::kCorrupt);
  const Result<Image> missing = LoadImage("no/such/picture.png");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("no/such/picture.png"));
  const Result<Image> folder = LoadImage(MINICPM_SOURCE_DIR "/tests");
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace minicpm
