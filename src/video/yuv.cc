// BT.601 in 16-bit fixed point, rounded to the nearest. Not for other matrices.
#include "video/yuv.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace minicpm {
namespace {

constexpr int kBits = 16;

// What the three channels add for each value of a sample. From Kr = 0.299, Kb = 0.114.
struct Tables {
  std::array<int32_t, 256> luma, red_of_cr, green_of_cr, green_of_cb, blue_of_cb;
};

int32_t Fixed(double x) { return static_cast<int32_t>(x * (1 << kBits) + (x < 0 ? -0.5 : 0.5)); }

Tables MakeTables(bool full_range) {
  constexpr double kRed = 0.299;
  constexpr double kBlue = 0.114;
  constexpr double kGreen = 1 - kRed - kBlue;
  const double luma = full_range ? 1.0 : 255.0 / 219.0;
  const double chroma = full_range ? 1.0 : 255.0 / 224.0;
  Tables t;
  for (int i = 0; i < 256; ++i) {
    const double c = (i - 128) * chroma;
    t.luma[i] = Fixed((i - (full_range ? 0 : 16)) * luma) + (1 << (kBits - 1));
    t.red_of_cr[i] = Fixed(2 * (1 - kRed) * c);
    t.green_of_cr[i] = Fixed(-2 * (1 - kRed) * kRed / kGreen * c);
    t.green_of_cb[i] = Fixed(-2 * (1 - kBlue) * kBlue / kGreen * c);
    t.blue_of_cb[i] = Fixed(2 * (1 - kBlue) * c);
  }
  return t;
}

uint8_t Clipped(int32_t x) { return static_cast<uint8_t>(std::clamp(x >> kBits, 0, 255)); }

}  // namespace

Image YuvToRgb(std::span<const uint8_t> planes, const YuvLayout& layout) {
  MINICPM_CHECK(layout.width >= 1 && layout.height >= 1 && planes.size() == layout.bytes());
  const Tables t = MakeTables(layout.full_range);
  Image image{layout.width, layout.height, std::vector<uint8_t>(3 * layout.luma_bytes())};
  const uint8_t* luma = planes.data();
  uint8_t* out = image.rgb.data();
  if (layout.chroma_x == 0) {
    for (size_t i = 0; i < layout.luma_bytes(); ++i, out += 3) out[0] = out[1] = out[2] = Clipped(t.luma[luma[i]]);
    return image;
  }
  for (int y = 0; y < layout.height; ++y) {
    const uint8_t* cb =
        planes.data() + layout.luma_bytes() + static_cast<size_t>(y / layout.chroma_y) * layout.chroma_width();
    const uint8_t* cr = cb + layout.chroma_bytes();
    int in_sample = 0;
    for (int x = 0; x < layout.width; ++x, out += 3) {
      const int32_t l = t.luma[*luma++];
      out[0] = Clipped(l + t.red_of_cr[*cr]);
      out[1] = Clipped(l + t.green_of_cr[*cr] + t.green_of_cb[*cb]);
      out[2] = Clipped(l + t.blue_of_cb[*cb]);
      if (++in_sample < layout.chroma_x) continue;
      in_sample = 0;
      ++cb;
      ++cr;
    }
  }
  return image;
}

}  // namespace minicpm
