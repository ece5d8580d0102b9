// Broken pictures: cut off, with flipped bits, or claiming to be enormous. Each gives an error or a picture within the
// limits, prints nothing and crashes nothing. Not for well-formed files: decode_test.cc.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "image/image.h"
#include "image/test_pictures.h"

namespace minicpm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ImageLimits kSmall = {.max_bytes = 1 << 20, .max_pixels = 1 << 18};

// What the library must never do, on whatever input.
class Silent : public ::testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }  // where the codec libraries would print
  void TearDown() override { EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); }
};

void ExpectSane(const Result<Image>& image, const std::string& what) {
  if (image.has_value()) {
    EXPECT_GE(image->width, 1) << what;
    EXPECT_GE(image->height, 1) << what;
    EXPECT_LE(static_cast<uint64_t>(image->width) * image->height, kSmall.max_pixels) << what;
    EXPECT_EQ(image->rgb.size(), size_t{3} * image->width * image->height) << what;
    return;
  }
  const ErrorCode code = image.error().code;
  EXPECT_TRUE(code == ErrorCode::kCorrupt || code == ErrorCode::kUnsupported || code == ErrorCode::kResourceExhausted)
      << what << ": " << image.error().message;
  EXPECT_THAT(image.error().message, AllOf(HasSubstr("x: "), Not(HasSubstr("\n")))) << what;
  EXPECT_LT(image.error().message.size(), 500u) << what;
}

// The number of bytes at a file's end that hold no part of the picture.
size_t Surplus(const std::string& file) {
  if (file == "trailing_bytes.jpg") return std::strlen("something after the picture");
  if (file.starts_with("rle")) return 4;  // marks: end of row, end of picture
  if (file.ends_with(".bmp")) return 3;   // padding of the last row
  return 0;
}

// A TIFF may hold more than its first picture, in any order; the rule for it is that no byte of that picture is
// missing.
bool EveryByteCounts(const std::string& file) { return !file.ends_with(".tif"); }

using Truncated = Silent;

TEST_F(Truncated, IsRefusedAtEveryLength) {
  for (const TestPicture& picture : TestPictures()) {
    const std::vector<std::byte> bytes = ReadTestPicture(picture.file);
    const size_t whole = bytes.size() - Surplus(picture.file);
    const size_t step = std::max<size_t>(1, whole / 150);
    for (size_t n = 0; n < whole; n += (n + 40 > whole ? 1 : step)) {
      const Result<Image> image = DecodeImage(std::span(bytes).first(n), "x", kSmall);
      const std::string what = picture.file + " cut to " + std::to_string(n) + " of " + std::to_string(bytes.size());
      ExpectSane(image, what);
      if (image.has_value() && !EveryByteCounts(picture.file)) {
        EXPECT_EQ(Crc32(image->rgb), picture.crc32) << what;
      } else {
        EXPECT_FALSE(image.has_value()) << what;
      }
    }
  }
}

using Flipped = Silent;

TEST_F(Flipped, OneBitToManyBytes) {
  std::mt19937 random(20240501);
  for (const TestPicture& picture : TestPictures()) {
    const std::vector<std::byte> bytes = ReadTestPicture(picture.file);
    for (int round = 0; round < 120; ++round) {
      std::vector<std::byte> broken = bytes;
      const int n_changes = 1 << (round % 5);
      for (int i = 0; i < n_changes; ++i) {
        // Half of the changes hit the first 64 bytes, where the headers are.
        const size_t range = round % 2 == 0 ? broken.size() : std::min<size_t>(64, broken.size());
        std::byte& byte = broken[random() % range];
        byte = round % 3 == 0 ? static_cast<std::byte>(random()) : byte ^ std::byte{1} << random() % 8;
      }
      ExpectSane(DecodeImage(broken, "x", kSmall), picture.file + " round " + std::to_string(round));
    }
  }
}

TEST_F(Flipped, TwoFilesJoined) {
  const std::vector<std::byte> jpeg = ReadTestPicture("rgb_420.jpg");
  for (const TestPicture& picture : TestPictures()) {
    std::vector<std::byte> bytes = ReadTestPicture(picture.file);
    bytes.resize(bytes.size() / 2);
    bytes.insert(bytes.end(), jpeg.begin(), jpeg.end());
    ExpectSane(DecodeImage(bytes, "x", kSmall), picture.file);
  }
}

// A committed picture whose header is changed to claim a size.
struct Bomb {
  const char* file;
  const char* pixels;
  void (*claim)(std::vector<std::byte>& bytes);
};

void Put(std::vector<std::byte>& bytes, size_t at, std::string_view value) {
  for (size_t i = 0; i < value.size(); ++i) bytes.at(at + i) = static_cast<std::byte>(value[i]);
}

size_t Find(const std::vector<std::byte>& bytes, std::string_view what) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.find(what);
}

// The most memory this process ever held.
long PeakMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6)) / 1024;
  }
  return 0;
}

constexpr std::string_view k60000Le("\x60\xea\0\0", 4);
constexpr std::string_view k60000Be("\0\0\xea\x60", 4);

constexpr Bomb kBombs[] = {
    {"rgb_420.jpg", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       const size_t at = Find(b, "\xff\xc0");
       Put(b, at + 5, k60000Be.substr(2));
       Put(b, at + 7, k60000Be.substr(2));
     }},
    {"progressive.jpg", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       const size_t at = Find(b, "\xff\xc2");
       Put(b, at + 5, k60000Be.substr(2));
       Put(b, at + 7, k60000Be.substr(2));
     }},
    {"rgb8.png", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       Put(b, 16, k60000Be);
       Put(b, 20, k60000Be);
       const uint32_t crc = Crc32({reinterpret_cast<const uint8_t*>(b.data()) + 12, 17});
       for (int i = 0; i < 4; ++i) b[29 + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
     }},
    {"lossless.webp", "16384 x 16384 = 268435456 pixels",
     [](std::vector<std::byte>& b) { Put(b, 21, std::string_view("\xff\xff\xff\x0f", 4)); }},
    {"plain.gif", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       Put(b, 6, k60000Le.substr(0, 2));
       Put(b, 8, k60000Le.substr(0, 2));
     }},
    {"rgb24.bmp", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       Put(b, 18, k60000Le);
       Put(b, 22, k60000Le);
     }},
    {"rle8.bmp", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       Put(b, 18, k60000Le);
       Put(b, 22, k60000Le);
     }},
    {"grey8_white.tif", "60000 x 60000 = 3600000000 pixels",
     [](std::vector<std::byte>& b) {
       Put(b, Find(b, std::string_view("\0\1\4\0\1\0\0\0\x25", 9)) + 8, k60000Le);
       Put(b, Find(b, std::string_view("\1\1\4\0\1\0\0\0\x1d", 9)) + 8, k60000Le);
     }},
};

using Bombs = Silent;

TEST_F(Bombs, AreRefusedWithBothNumbers) {
  for (const Bomb& bomb : kBombs) {
    std::vector<std::byte> bytes = ReadTestPicture(bomb.file);
    bomb.claim(bytes);
    const Result<Image> image = DecodeImage(bytes, "x");
    ASSERT_FALSE(image.has_value()) << bomb.file;
    EXPECT_EQ(image.error().code, ErrorCode::kResourceExhausted) << bomb.file << ": " << image.error().message;
    EXPECT_THAT(image.error().message, AllOf(HasSubstr(bomb.pixels), HasSubstr("the limit is 178956970"))) << bomb.file;
  }
}

TEST_F(Bombs, AHugeTileInASmallPicture) {
  std::vector<std::byte> bytes = ReadTestPicture("tiles_grey.tif");
  Put(bytes, Find(bytes, std::string_view("\x42\1\4\0\1\0\0\0\x40", 9)) + 8, k60000Le);
  Put(bytes, Find(bytes, std::string_view("\x43\1\4\0\1\0\0\0\x30", 9)) + 8, k60000Le);
  const Result<Image> image = DecodeImage(bytes, "x");
  ASSERT_FALSE(image.has_value());
  EXPECT_THAT(image.error().message, HasSubstr("60000 x 60000"));
}

// libpng would take the memory first and look for the bytes later.
TEST_F(Bombs, AChunkOfTwoGigabytes) {
  std::vector<std::byte> bytes = ReadTestPicture("raw_profile_5.png");
  Put(bytes, Find(bytes, "tEXt") - 4, std::string_view("\x7e\0\0\x74", 4));
  const Result<Image> image = DecodeImage(bytes, "x");
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error().message, "x: broken PNG file: the file ends too early");
  EXPECT_LT(PeakMegabytes(), 1500);
}

TEST_F(Bombs, ManyScansOfOneJpeg) {
  // A progressive picture whose first scan stands there again and again.
  const std::vector<std::byte> jpeg = ReadTestPicture("progressive.jpg");
  const size_t begin = Find(jpeg, "\xff\xda");
  const std::string_view text(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  const size_t end = std::min(text.find("\xff\xda", begin + 2), text.find("\xff\xc4", begin + 2));
  ASSERT_NE(end, std::string_view::npos);
  const auto repeated = [&](int n) {
    std::vector<std::byte> many = jpeg;
    for (int i = 0; i < n; ++i) many.insert(many.begin() + end, jpeg.begin() + begin, jpeg.begin() + end);
    return DecodeImage(many, "x");
  };
  EXPECT_TRUE(repeated(10).has_value());
  const Result<Image> image = repeated(100);
  ASSERT_FALSE(image.has_value());
  EXPECT_THAT(image.error().message, HasSubstr("scans"));
}

}  // namespace
}  // namespace minicpm
