// Which way up a picture is (EXIF through libexif, XMP by its one attribute) and turning it. Same effect as Pillow's
// ImageOps.exif_transpose. Not for any other metadata.
#include <libexif/exif-data.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "image/codec.h"

namespace minicpm {
namespace {

constexpr std::string_view kExifStart("Exif\0\0", 6);

struct UnrefExif {
  void operator()(ExifData* data) const { exif_data_unref(data); }
};

}  // namespace

int ExifOrientation(std::span<const std::byte> exif) {
  std::vector<unsigned char> block;  // libexif insists on the six bytes that PNG and WebP leave out
  const std::string_view text(reinterpret_cast<const char*>(exif.data()), exif.size());
  if (!text.starts_with(kExifStart)) block.insert(block.end(), kExifStart.begin(), kExifStart.end());
  block.insert(block.end(), text.begin(), text.end());
  const std::unique_ptr<ExifData, UnrefExif> data(exif_data_new());
  if (data == nullptr || block.size() > 1u << 20) return 0;
  exif_data_unset_option(data.get(), EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);  // read, do not repair
  exif_data_load_data(data.get(), block.data(), static_cast<unsigned>(block.size()));
  const ExifEntry* entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
  if (entry == nullptr || entry->data == nullptr || entry->components < 1) return 0;
  const ExifByteOrder order = exif_data_get_byte_order(data.get());
  if (entry->format == EXIF_FORMAT_SHORT && entry->size >= 2) return exif_get_short(entry->data, order);
  if (entry->format == EXIF_FORMAT_LONG && entry->size >= 4) {
    return static_cast<int>(std::min<ExifLong>(exif_get_long(entry->data, order), 9));
  }
  return 0;
}

int XmpOrientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at)) {
    at += kName.size();
    std::string_view rest = xmp.substr(at);
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return 0;
}

int ChooseOrientation(std::span<const std::byte> exif, std::string_view xmp) {
  int orientation = exif.empty() ? 0 : ExifOrientation(exif);
  if (orientation == 0 && !xmp.empty()) orientation = XmpOrientation(xmp);
  return orientation >= 1 && orientation <= 8 ? orientation : 1;
}

void ApplyOrientation(int orientation, Image& image) {
  if (orientation < 2 || orientation > 8) return;
  // The shown pixel (x, y) is the stored one at (x or y, y or x), counted from the far side where flipped.
  const bool swap = orientation >= 5;
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int64_t w = image.width;
  const int64_t h = image.height;
  const int64_t shown_w = swap ? h : w;
  const int64_t shown_h = swap ? w : h;
  std::vector<uint8_t> shown(image.rgb.size());
  constexpr int64_t kTile = 64;  // keeps the strided side in cache
  for (int64_t y0 = 0; y0 < shown_h; y0 += kTile) {
    for (int64_t x0 = 0; x0 < shown_w; x0 += kTile) {
      for (int64_t y = y0; y < std::min(y0 + kTile, shown_h); ++y) {
        uint8_t* to = shown.data() + 3 * (y * shown_w + x0);
        for (int64_t x = x0; x < std::min(x0 + kTile, shown_w); ++x, to += 3) {
          const int64_t across = swap ? y : x;
          const int64_t down = swap ? x : y;
          const int64_t from_x = flip_x ? w - 1 - across : across;
          const int64_t from_y = flip_y ? h - 1 - down : down;
          std::memcpy(to, image.rgb.data() + 3 * (from_y * w + from_x), 3);
        }
      }
    }
  }
  image.rgb = std::move(shown);
  image.width = static_cast<int>(shown_w);
  image.height = static_cast<int>(shown_h);
}

}  // namespace minicpm
