// Text on pictures: pixels change inside of the box and nowhere else, whatever the text is.
#include "image/draw_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

Image Plain(int width, int height, uint8_t value = 90) {
  return {.width = width, .height = height, .rgb = std::vector<uint8_t>(size_t{3} * width * height, value)};
}

std::unique_ptr<TextDrawer> Drawer() {
  auto drawer = TextDrawer::Create("");
  EXPECT_TRUE(drawer.has_value()) << drawer.error().message;
  return drawer.has_value() ? std::move(*drawer) : nullptr;
}

bool Inside(const DrawnBox& box, int x, int y) {
  return x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
}

// Pixels of the picture that are nearly as bright as the ink.
int CountInk(const Image& image) {
  int n = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) n += image.rgb[i] > 200 ? 1 : 0;
  return n;
}

// Draws, and checks that nothing outside of the box changed and that the box lies within the picture.
DrawnBox DrawChecked(TextDrawer& drawer, std::string_view text, Image& image, const TextStyle& style = {}) {
  const Image before = image;
  const DrawnBox box = drawer.Draw(text, style, image);
  EXPECT_GE(box.x, 0);
  EXPECT_GE(box.y, 0);
  EXPECT_LE(box.x + box.width, image.width);
  EXPECT_LE(box.y + box.height, image.height);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const size_t at = 3 * (static_cast<size_t>(y) * image.width + x);
      if (!Inside(box, x, y) && !std::equal(&image.rgb[at], &image.rgb[at] + 3, &before.rgb[at])) {
        ADD_FAILURE() << "pixel " << x << ", " << y << " changed outside of the box";
        return box;
      }
    }
  }
  return box;
}

TEST(DrawText, DarkensABoxAndWritesIntoIt) {
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  Image image = Plain(320, 240);
  const DrawnBox box = DrawChecked(*drawer, "Yes, the lower left corner.", image);
  EXPECT_GT(box.width, 100);
  EXPECT_LT(box.width, 320);
  EXPECT_EQ(box.y + box.height, 240);
  EXPECT_GT(CountInk(image), 100);
  const size_t corner = 3 * (static_cast<size_t>(box.y) * image.width);
  EXPECT_EQ(image.rgb[corner], (90 * (255 - 160) + 127) / 255) << "the box's corner is dimmed, not painted over";
}

TEST(DrawText, MoreTextTakesMoreInkAndMoreLines) {
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  Image little = Plain(320, 240);
  Image much = Plain(320, 240);
  const DrawnBox one = DrawChecked(*drawer, "no", little);
  const DrawnBox several = DrawChecked(
      *drawer,
      "no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no no",
      much);
  EXPECT_GT(several.height, one.height);
  EXPECT_GT(CountInk(much), 5 * CountInk(little));
  Image other = Plain(320, 240);
  DrawChecked(*drawer, "on", other);
  EXPECT_NE(other.rgb, little.rgb) << "other letters, other pixels";
  Image again = Plain(320, 240);
  DrawChecked(*drawer, "no", again);
  EXPECT_EQ(again.rgb, little.rgb) << "the same text gives the same pixels";
}

TEST(DrawText, ColoursAreThoseOfTheStyle) {
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  Image image = Plain(200, 100, 0);
  TextStyle style;
  style.ink = {0, 255, 0};
  style.box = {200, 0, 0};
  style.box_opacity = 255;
  const DrawnBox box = DrawChecked(*drawer, "WWW", image, style);
  ASSERT_GT(box.width, 0);
  const size_t corner = 3 * (static_cast<size_t>(box.y) * image.width);
  EXPECT_EQ(image.rgb[corner], 200);
  EXPECT_EQ(image.rgb[corner + 1], 0);
  int greenest = 0;
  for (size_t i = 1; i < image.rgb.size(); i += 3) greenest = std::max<int>(greenest, image.rgb[i]);
  EXPECT_GT(greenest, 240);
}

TEST(DrawText, HostileTextIsHarmless) {
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  std::string all_bytes;
  for (int i = 0; i < 1024; ++i) all_bytes += static_cast<char>(i * 7);
  std::string marks;  // a million bytes of combining accents, none of which moves the pen
  for (int i = 0; i < 500'000; ++i) marks += "\xcc\x81";
  for (const std::string& text : {std::string(1'000'000, 'x'), std::string(1'000'000, '\n'), marks, all_bytes,
                                  std::string("\u202e\u2067 \u0645\u0631\u062d\u0628\u0627 \u202c"),
                                  std::string("\U0001f600 \U0010ffff \ue000"), std::string("\0a\0b", 4)}) {
    Image image = Plain(320, 240);
    const DrawnBox box = DrawChecked(*drawer, text, image);
    EXPECT_LE(box.height, 120) << "at most half of the picture";
  }
}

TEST(DrawText, NothingToDrawOrNoRoomChangesNothing) {
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  for (const char* text : {"", "   ", "\n\n", "\u200b\x01"}) {
    Image image = Plain(320, 240);
    EXPECT_EQ(DrawChecked(*drawer, text, image).width, 0) << text;
    EXPECT_EQ(image.rgb, Plain(320, 240).rgb);
  }
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 1000}, {1000, 1}, {8, 8}, {30, 20}}) {
    Image image = Plain(width, height);
    EXPECT_EQ(DrawChecked(*drawer, "too small", image).width, 0);
    EXPECT_EQ(image.rgb, Plain(width, height).rgb);
  }
}

TEST(DrawText, ScalesWithThePicture) {
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  Image small = Plain(320, 240);
  Image large = Plain(1920, 1080);
  const DrawnBox small_box = DrawChecked(*drawer, "yes", small);
  const DrawnBox large_box = DrawChecked(*drawer, "yes", large);
  EXPECT_GT(large_box.height, 3 * small_box.height);
  TextStyle huge;
  huge.size_px = 1'000'000;
  EXPECT_EQ(DrawChecked(*drawer, "yes", large, huge).width, 0);
}

TEST(DrawText, AFontFileMustBeOne) {
  const test::TempDir dir;
  const auto missing = TextDrawer::Create(dir.File("none.ttf"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("none.ttf: this font file cannot be opened"));
  const auto text = TextDrawer::Create(dir.Write("note.ttf", "this is no font"));
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(text.error().message, HasSubstr("note.ttf: expected a font with outlines"));
}

TEST(DrawText, AMachineWithoutFontsIsToldWhatToInstall) {
  const test::TempDir dir;
  const std::string config = dir.Write("fonts.conf", "<?xml version=\"1.0\"?><fontconfig></fontconfig>");
  ASSERT_EQ(setenv("FONTCONFIG_FILE", config.c_str(), 1), 0);
  const auto drawer = TextDrawer::Create("");
  unsetenv("FONTCONFIG_FILE");
  ASSERT_FALSE(drawer.has_value());
  EXPECT_EQ(drawer.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(drawer.error().message, HasSubstr("no scalable font is installed"));
}

TEST(DrawText, AFontCanBeNamed) {
  const std::string bold = "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf";
  const auto named = TextDrawer::Create(bold);
  if (!named.has_value()) GTEST_SKIP() << named.error().message;
  const auto drawer = Drawer();
  ASSERT_NE(drawer, nullptr);
  Image plain = Plain(320, 240);
  Image heavy = Plain(320, 240);
  DrawChecked(*drawer, "defective", plain);
  DrawChecked(**named, "defective", heavy);
  EXPECT_GT(CountInk(heavy), CountInk(plain));
}

}  // namespace
}  // namespace minicpm
