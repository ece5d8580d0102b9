// BMP, read here because no small library for it exists: 1, 4, 8 bits with palette, RLE4/RLE8, 16, 24, 32 bits with or
// without masks, bottom-up and top-down, Windows and OS/2 headers. Not for JPEG or PNG data inside a BMP.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "image/codec.h"

namespace minicpm {
namespace {

constexpr const char* kFormat = "BMP";

enum Compression : uint32_t { kRgb = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

struct Header {
  int64_t width = 0;
  int64_t height = 0;
  bool top_down = false;
  uint32_t bits = 0;
  uint32_t compression = kRgb;
  std::array<uint32_t, 3> mask = {};  // red, green, blue; for 16 and 32 bits
  size_t pixels_at = 0;
  std::array<std::array<uint8_t, 3>, 256> palette = {};  // entries that the file does not define are black
};

uint32_t U16(const uint8_t* p) { return p[0] | p[1] << 8; }
uint32_t U32(const uint8_t* p) { return U16(p) | U16(p + 2) << 16; }

// Bits of the file's palette, after the header and masks.
Status ReadPalette(const CodecInput& in, size_t at, uint32_t n_colours, size_t entry_bytes, Header& header) {
  const size_t n = std::min<size_t>(n_colours, size_t{1} << header.bits);
  if (at > in.size() || in.size() - at < n * entry_bytes)
    return Broken(in, kFormat, "the file ends inside its palette");
  const uint8_t* p = in.data() + at;
  for (size_t i = 0; i < n; ++i, p += entry_bytes) header.palette[i] = {p[2], p[1], p[0]};
  return {};
}

Status CheckLayout(const CodecInput& in, const Header& header) {
  const uint32_t bits = header.bits;
  const bool known_bits = bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
  if (!known_bits) return NotSupported(in, kFormat, "it has " + std::to_string(bits) + " bits per pixel");
  bool fits = false;
  switch (header.compression) {
    case kRgb:
      fits = true;
      break;
    case kRle8:
      fits = bits == 8 && !header.top_down;
      break;
    case kRle4:
      fits = bits == 4 && !header.top_down;
      break;
    case kBitFields:
    case kAlphaBitFields:
      fits = bits == 16 || bits == 32;
      break;
    default:
      break;
  }
  if (fits) return {};
  return NotSupported(in, kFormat,
                      "it has compression " + std::to_string(header.compression) + " with " + std::to_string(bits) +
                          " bits per pixel" + (header.top_down ? ", stored top-down" : ""));
}

// Masks of 16 and 32 bits: from the file, or the usual 5-5-5 and 8-8-8.
Status ReadMasks(const CodecInput& in, size_t at, Header& header) {
  const bool from_file = header.compression == kBitFields || header.compression == kAlphaBitFields;
  header.mask = header.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x3e0, 0x1f}
                                  : std::array<uint32_t, 3>{0xff0000, 0xff00, 0xff};
  if (!from_file) return {};
  if (at > in.size() || in.size() - at < 12) return Broken(in, kFormat, "the file ends inside its colour masks");
  const std::array<uint32_t, 3> mask = {U32(in.data() + at), U32(in.data() + at + 4), U32(in.data() + at + 8)};
  if ((mask[0] | mask[1] | mask[2]) == 0) return {};
  header.mask = mask;
  for (const uint32_t m : mask) {
    const uint32_t value = m == 0 ? 0 : m >> std::countr_zero(m);
    if (m == 0 || (value & (value + 1)) != 0 || value > 0xffff) {
      return NotSupported(in, kFormat, "it has the colour mask " + std::to_string(m));
    }
  }
  return {};
}

Result<Header> ReadHeader(const CodecInput& in) {
  const uint8_t* data = in.data();
  constexpr size_t kFileHeader = 14;
  if (in.size() < kFileHeader + 12) return Broken(in, kFormat, "the file ends inside its header");
  const size_t n_header = U32(data + kFileHeader);
  const bool old = n_header == 12;  // OS/2 1.x and Windows 2
  if (!old && (n_header < 40 || n_header > 124)) {
    return NotSupported(in, kFormat, "it has a header of " + std::to_string(n_header) + " bytes");
  }
  if (in.size() < kFileHeader + n_header) return Broken(in, kFormat, "the file ends inside its header");
  const uint8_t* h = data + kFileHeader;
  Header header;
  header.pixels_at = U32(data + 10);
  uint32_t n_colours = 0;
  if (old) {
    header.width = U16(h + 4);
    header.height = U16(h + 6);
    header.bits = U16(h + 10);
  } else {
    header.width = static_cast<int32_t>(U32(h + 4));
    header.height = static_cast<int32_t>(U32(h + 8));
    header.bits = U16(h + 14);
    header.compression = U32(h + 16);
    n_colours = U32(h + 32);
  }
  header.top_down = header.height < 0;
  header.height = std::abs(header.height);
  if (header.width < 0) return Broken(in, kFormat, "its width is negative");
  MINICPM_TRY(CheckLayout(in, header));
  size_t at = kFileHeader + n_header;
  if (header.bits == 16 || header.bits == 32) {
    const bool inside = n_header >= 52;  // later headers hold the masks themselves
    MINICPM_TRY(ReadMasks(in, inside ? kFileHeader + 40 : at, header));
  }
  if (header.bits <= 8) {
    const size_t entry_bytes = old ? 3 : 4;
    if (n_colours == 0) n_colours = 1u << header.bits;
    MINICPM_TRY(ReadPalette(in, at, n_colours, entry_bytes, header));
    at += entry_bytes * n_colours;
  }
  if (header.pixels_at == 0) header.pixels_at = at;
  return header;
}

// Palette indices of a run-length coded picture, bottom row first; pixels that the file skips have index 0.
class RleReader {
 public:
  RleReader(const CodecInput& in, const Header& header, std::vector<uint8_t>& indices)
      : in_(in),
        width_(header.width),
        height_(header.height),
        nibbles_(header.bits == 4),
        at_(header.pixels_at),
        indices_(indices) {}

  // Up to the end mark, or until the last pixel is there: some programs leave the mark out.
  Status Read() {
    while (y_ < height_ - 1 || (y_ == height_ - 1 && x_ < width_)) {
      const int count = Next();
      const int value = Next();
      if (value < 0) return Ended();
      if (count > 0) {
        for (int i = 0; i < count; ++i) Put(nibbles_ ? (i % 2 == 0 ? value >> 4 : value & 15) : value);
        continue;
      }
      if (value == 1) return {};  // end of picture
      if (value == 0) {
        x_ = 0;
        ++y_;
      } else if (value == 2) {
        const int right = Next();
        const int up = Next();
        if (up < 0) return Ended();
        x_ += right;
        y_ += up;
      } else if (!Literal(value)) {
        return Ended();
      }
    }
    return {};
  }

 private:
  std::unexpected<Error> Ended() const { return Broken(in_, kFormat, "the file ends inside its pixels"); }

  int Next() { return at_ < in_.size() ? in_.data()[at_++] : -1; }

  // Outside of the picture nothing is written, as for other readers.
  void Put(int index) {
    if (x_ < width_ && y_ < height_) indices_[y_ * width_ + x_] = static_cast<uint8_t>(index);
    ++x_;
  }

  bool Literal(int n) {
    const int n_bytes = nibbles_ ? (n + 1) / 2 : n;
    for (int i = 0; i < n_bytes; ++i) {
      const int byte = Next();
      if (byte < 0) return false;
      if (!nibbles_) {
        Put(byte);
      } else {
        Put(byte >> 4);
        if (2 * i + 1 < n) Put(byte & 15);
      }
    }
    return n_bytes % 2 == 0 || Next() >= 0;  // padded to 16 bits
  }

  const CodecInput& in_;
  int64_t width_;
  int64_t height_;
  bool nibbles_;
  size_t at_;
  int64_t x_ = 0;
  int64_t y_ = 0;
  std::vector<uint8_t>& indices_;
};

// One stored row of palette indices, most significant bits first.
void IndexedRowToRgb(const Header& header, const uint8_t* row, uint8_t* rgb) {
  const uint32_t per_byte = 8 / header.bits;
  const uint32_t mask = (1u << header.bits) - 1;
  for (int64_t x = 0; x < header.width; ++x, rgb += 3) {
    const uint32_t shift = (per_byte - 1 - x % per_byte) * header.bits;
    std::memcpy(rgb, header.palette[row[x / per_byte] >> shift & mask].data(), 3);
  }
}

// One stored row of 16- or 32-bit pixels: each masked part, scaled to 0..255.
void MaskedRowToRgb(const Header& header, const uint8_t* row, uint8_t* rgb) {
  for (int64_t x = 0; x < header.width; ++x, rgb += 3) {
    const uint32_t pixel = header.bits == 16 ? U16(row + 2 * x) : U32(row + 4 * x);
    for (int c = 0; c < 3; ++c) {
      const int shift = std::countr_zero(header.mask[c]);
      rgb[c] = static_cast<uint8_t>(((pixel & header.mask[c]) >> shift) * 255 / (header.mask[c] >> shift));
    }
  }
}

void RowToRgb(const Header& header, const uint8_t* row, uint8_t* rgb) {
  if (header.bits <= 8) return IndexedRowToRgb(header, row, rgb);
  if (header.bits != 24) return MaskedRowToRgb(header, row, rgb);
  for (int64_t x = 0; x < header.width; ++x, row += 3, rgb += 3) {
    rgb[0] = row[2];
    rgb[1] = row[1];
    rgb[2] = row[0];
  }
}

Status ReadPlainRows(const CodecInput& in, const Header& header, Image& image) {
  const uint64_t stride = (static_cast<uint64_t>(header.width) * header.bits + 31) / 32 * 4;
  const uint64_t last = (static_cast<uint64_t>(header.width) * header.bits + 7) / 8;  // its padding may be missing
  const uint64_t needed = stride * (header.height - 1) + last;
  if (header.pixels_at > in.size() || in.size() - header.pixels_at < needed) {
    return Broken(in, kFormat,
                  "the pixels need " + std::to_string(needed) + " bytes from " + std::to_string(header.pixels_at) +
                      ", the file has " + std::to_string(in.size()));
  }
  for (int64_t y = 0; y < header.height; ++y) {
    const int64_t to = header.top_down ? y : header.height - 1 - y;
    RowToRgb(header, in.data() + header.pixels_at + stride * y, image.rgb.data() + 3 * header.width * to);
  }
  return {};
}

Status ReadRleRows(const CodecInput& in, const Header& header, Image& image) {
  std::vector<uint8_t> indices(static_cast<size_t>(header.width) * header.height);
  MINICPM_TRY(RleReader(in, header, indices).Read());
  for (int64_t y = 0; y < header.height; ++y) {
    uint8_t* rgb = image.rgb.data() + 3 * header.width * (header.height - 1 - y);
    for (int64_t x = 0; x < header.width; ++x) {
      std::copy_n(header.palette[indices[y * header.width + x]].data(), 3, rgb + 3 * x);
    }
  }
  return {};
}

}  // namespace

Result<Decoded> DecodeBmp(const CodecInput& in) {
  MINICPM_ASSIGN(const Header header, ReadHeader(in));
  Decoded decoded;
  MINICPM_ASSIGN(decoded.image, NewImage(in, kFormat, header.width, header.height));
  const bool rle = header.compression == kRle8 || header.compression == kRle4;
  MINICPM_TRY(rle ? ReadRleRows(in, header, decoded.image) : ReadPlainRows(in, header, decoded.image));
  return decoded;
}

}  // namespace minicpm
