// What the readers of single formats share: their input, their output, the check before allocating, error sentences.
// Internal to this room; callers outside use image.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "image/image.h"

namespace minicpm {

struct CodecInput {
  std::span<const std::byte> bytes;
  std::string name;  // safe to print
  const ImageLimits& limits;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
  size_t size() const { return bytes.size(); }
};

// Pixels as stored, and the EXIF orientation (1..8) that is still to be applied.
struct Decoded {
  Image image;
  int orientation = 1;
};

// One per file format, each told by content beforehand. They read only `in.bytes`, print nothing, throw nothing but
// std::bad_alloc, and refuse a file that ends before its format says it should.
Result<Decoded> DecodeJpeg(const CodecInput& in);
Result<Decoded> DecodePng(const CodecInput& in);
Result<Decoded> DecodeWebp(const CodecInput& in);
Result<Decoded> DecodeGif(const CodecInput& in);
Result<Decoded> DecodeTiff(const CodecInput& in);
Result<Decoded> DecodeBmp(const CodecInput& in);

// The pixel limit; for codecs that allocate before the picture itself is made. `format` as in "JPEG".
Status CheckPixels(const CodecInput& in, const char* format, uint64_t width, uint64_t height);

// CheckPixels, then a black picture.
Result<Image> NewImage(const CodecInput& in, const char* format, uint64_t width, uint64_t height);

// "photo.jpg: broken JPEG file: <what>"; `what` may quote a library's message.
std::unexpected<Error> Broken(const CodecInput& in, const char* format, std::string_view what);
// "photo.tif: <what>, which is not supported in TIFF files"
std::unexpected<Error> NotSupported(const CodecInput& in, const char* format, std::string_view what);

// Orientation of an EXIF block that starts with "Exif\0\0" or with its TIFF header; 0 when it names none.
int ExifOrientation(std::span<const std::byte> exif);
// Orientation in an XMP packet; 0 when it names none.
int XmpOrientation(std::string_view xmp);
// What a picture with these two blocks (possibly empty) asks for: EXIF first, then XMP, else 1.
int ChooseOrientation(std::span<const std::byte> exif, std::string_view xmp);
// Turns and mirrors `image`; values outside 2..8 change nothing.
void ApplyOrientation(int orientation, Image& image);

// rgb[3 * n] from cmyk[4 * n], 0 = no ink; Pillow's formula (no colour profile).
void CmykToRgb(const uint8_t* cmyk, size_t n, uint8_t* rgb);

}  // namespace minicpm
