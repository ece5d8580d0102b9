// TIFF through libtiff: strips and tiles, either planar layout, 1 to 16 bits grey, palette, RGB, CMYK, YCbCr; first
// page. Not for floating point, signed, Lab or more than 16 bits. Pixels are read raw, so that they come out as
// Pillow's do.
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "image/codec.h"
#include "image/tiff_directory.h"

namespace minicpm {
namespace {

constexpr const char* kFormat = "TIFF";
constexpr int kMaxSamples = 6;

// The file's bytes as libtiff reads them, and the first thing it complained about.
struct Source {
  const uint8_t* data;
  uint64_t size;
  uint64_t at;
  char message[256];
};

tmsize_t Read(thandle_t handle, void* to, tmsize_t n) {
  auto* source = static_cast<Source*>(handle);
  if (n < 0 || source->at >= source->size) return 0;
  const uint64_t available = std::min<uint64_t>(n, source->size - source->at);
  std::memcpy(to, source->data + source->at, available);
  source->at += available;
  return static_cast<tmsize_t>(available);
}
tmsize_t Write(thandle_t, void*, tmsize_t) { return 0; }
toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  auto* source = static_cast<Source*>(handle);
  const uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source->at : source->size;
  source->at = base + offset;  // modulo 2^64, as lseek would with a negative offset; Read checks
  return source->at;
}
int Close(thandle_t) { return 0; }
toff_t SizeOfFile(thandle_t handle) { return static_cast<Source*>(handle)->size; }

// Returning 1 keeps libtiff's own handlers, which print, out of it.
int OnError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto* source = static_cast<Source*>(user);
  if (source->message[0] == '\0') std::vsnprintf(source->message, sizeof source->message, format, arguments);
  return 1;
}
int OnWarning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using TiffPtr = std::unique_ptr<TIFF, CloseTiff>;

TiffPtr Open(Source* source, const CodecInput& in) {
  struct FreeOptions {
    void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
  };
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) return nullptr;
  // One decoded strip may be the whole picture in 16-bit CMYK; directories are far smaller.
  const uint64_t max_bytes =
      std::max<uint64_t>(in.limits.max_bytes, 8 * std::min<uint64_t>(in.limits.max_pixels, 1u << 30));
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(max_bytes));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), OnWarning, source);
  // m: no memory map; c: no cutting of large strips.
  return TiffPtr(TIFFClientOpenExt("picture", "rmc", source, Read, Write, Seek, Close, SizeOfFile, nullptr, nullptr,
                                   options.get()));
}

// How the samples lie, and where the blocks (strips or tiles) are.
struct Layout {
  uint32_t width = 0;
  uint32_t height = 0;
  uint16_t bits = 1;
  uint16_t samples = 1;
  uint16_t photometric = PHOTOMETRIC_MINISWHITE;
  uint16_t compression = COMPRESSION_NONE;
  int n_colours = 1;           // samples that make the colour: 1, 3 or 4
  bool premultiplied = false;  // sample n_colours is an alpha that the colours were multiplied with
  bool separate = false;       // one plane per sample
  bool through_rgba = false;   // subsampled YCbCr: libtiff converts
  bool tiled = false;
  uint32_t block_width = 0;
  uint32_t block_height = 0;
  std::array<std::array<uint8_t, 3>, 256> palette = {};

  int n_used() const { return n_colours + (premultiplied ? 1 : 0); }
};

uint16_t Get16(TIFF* tiff, uint32_t tag, uint16_t fallback) {
  uint16_t value = fallback;
  return TIFFGetFieldDefaulted(tiff, tag, &value) != 0 ? value : fallback;
}

bool KnownCompression(uint16_t compression) {
  constexpr uint16_t kKnown[] = {COMPRESSION_NONE,    COMPRESSION_CCITTRLE,      COMPRESSION_CCITTFAX3,
                                 COMPRESSION_LZW,     COMPRESSION_CCITTFAX4,     COMPRESSION_JPEG,
                                 COMPRESSION_DEFLATE, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS,
                                 COMPRESSION_LZMA,    COMPRESSION_ZSTD,          COMPRESSION_WEBP};
  return std::ranges::find(kKnown, compression) != std::end(kKnown) && TIFFIsCODECConfigured(compression) != 0;
}

bool KnownDepth(const Layout& layout) {
  const uint16_t bits = layout.bits;
  if (bits == 8) return true;
  if (bits == 16) return layout.photometric != PHOTOMETRIC_PALETTE && layout.photometric != PHOTOMETRIC_YCBCR;
  if (layout.samples != 1) return false;
  const bool grey = layout.photometric == PHOTOMETRIC_MINISWHITE || layout.photometric == PHOTOMETRIC_MINISBLACK;
  return bits == 1 || bits == 2 || bits == 4 || (bits == 12 && grey);
}

Status ReadColours(const CodecInput& in, TIFF* tiff, Layout& layout) {
  switch (layout.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      layout.n_colours = 1;
      break;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      layout.n_colours = 3;
      break;
    case PHOTOMETRIC_SEPARATED:
      layout.n_colours = 4;
      break;
    default:
      return NotSupported(in, kFormat, "it has photometric interpretation " + std::to_string(layout.photometric));
  }
  if (layout.samples < layout.n_colours || layout.samples > kMaxSamples || !KnownDepth(layout)) {
    return NotSupported(in, kFormat,
                        "it has " + std::to_string(layout.samples) + " samples of " + std::to_string(layout.bits) +
                            " bits with photometric interpretation " + std::to_string(layout.photometric));
  }
  uint16_t n_extra = 0;
  uint16_t* extra = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &n_extra, &extra) != 0 && n_extra > 0) {
    layout.premultiplied = extra[0] == EXTRASAMPLE_ASSOCALPHA && layout.samples > layout.n_colours &&
                           layout.photometric != PHOTOMETRIC_PALETTE && layout.photometric != PHOTOMETRIC_SEPARATED;
  }
  if (layout.photometric == PHOTOMETRIC_PALETTE) {
    std::array<uint16_t*, 3> map = {};
    if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]) == 0) {
      return Broken(in, kFormat, "it has a palette picture without a palette");
    }
    for (int i = 0; i < 1 << layout.bits; ++i) {
      for (int c = 0; c < 3; ++c) layout.palette[i][c] = static_cast<uint8_t>(map[c][i] >> 8);
    }
  }
  return {};
}

// Every block must lie inside the file: what libtiff would fill with grey or zeros is refused here.
Status CheckBlocks(const CodecInput& in, TIFF* tiff, const Layout& layout) {
  const uint32_t n_blocks = layout.tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  for (uint32_t i = 0; i < n_blocks; ++i) {
    const uint64_t offset = TIFFGetStrileOffset(tiff, i);
    const uint64_t n_bytes = TIFFGetStrileByteCount(tiff, i);
    if (n_bytes == 0 || offset > in.size() || n_bytes > in.size() - offset) {
      return Broken(in, kFormat,
                    "block " + std::to_string(i) + " has " + std::to_string(n_bytes) + " bytes at offset " +
                        std::to_string(offset) + ", the file has " + std::to_string(in.size()));
    }
  }
  return {};
}

Result<Layout> ReadLayout(const CodecInput& in, TIFF* tiff) {
  Layout layout;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout.width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout.height);
  MINICPM_TRY(CheckPixels(in, kFormat, layout.width, layout.height));
  layout.bits = Get16(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  layout.samples = Get16(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  layout.photometric = Get16(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISWHITE);
  layout.compression = Get16(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  layout.separate = Get16(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  layout.tiled = TIFFIsTiled(tiff) != 0;
  const uint16_t sample_format = Get16(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (sample_format != SAMPLEFORMAT_UINT && sample_format != SAMPLEFORMAT_VOID) {
    return NotSupported(in, kFormat, "it has samples that are not unsigned integers");
  }
  if (!KnownCompression(layout.compression)) {
    return NotSupported(in, kFormat, "it has compression " + std::to_string(layout.compression));
  }
  MINICPM_TRY(ReadColours(in, tiff, layout));
  if (layout.photometric == PHOTOMETRIC_YCBCR) {
    if (layout.compression == COMPRESSION_JPEG && !layout.separate) {
      TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    } else {
      layout.through_rgba = true;
    }
  }
  if (layout.tiled) {
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &layout.block_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &layout.block_height);
  } else {
    layout.block_width = layout.width;
    uint32_t rows = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows);
    layout.block_height = std::min(rows, layout.height);
  }
  // A tile may be larger than the picture, but not so much larger that it becomes a bomb.
  const uint64_t max_block = std::max<uint64_t>(uint64_t{2} * layout.width * layout.height, 1u << 22);
  if (layout.block_width == 0 || layout.block_height == 0 || layout.block_width > max_block / layout.block_height) {
    return Broken(in, kFormat,
                  "its blocks are " + std::to_string(layout.block_width) + " x " + std::to_string(layout.block_height) +
                      " pixels in a picture of " + std::to_string(layout.width) + " x " +
                      std::to_string(layout.height));
  }
  MINICPM_TRY(CheckBlocks(in, tiff, layout));
  return layout;
}

uint8_t Unmultiplied(int value, int alpha) {
  if (alpha == 0) return 0;
  return static_cast<uint8_t>(alpha == 255 ? value : std::min(value * 255 / alpha, 255));
}

// Sample i of a row as 8 bits: the high byte of 16, the upper 8 of 12, fewer bits as they are.
uint8_t SampleAt(const uint8_t* row, int bits, size_t i) {
  switch (bits) {
    case 16: {
      uint16_t value;
      std::memcpy(&value, row + 2 * i, 2);
      return static_cast<uint8_t>(value >> 8);
    }
    case 12: {
      const uint8_t* p = row + i / 2 * 3;
      return static_cast<uint8_t>(i % 2 == 0 ? p[0] : (p[1] & 15) << 4 | p[2] >> 4);
    }
    case 8:
      return row[i];
    default: {  // 1, 2, 4: most significant first
      const size_t at = i * bits;
      return static_cast<uint8_t>(row[at / 8] >> (8 - bits - at % 8) & ((1 << bits) - 1));
    }
  }
}

// The common kinds, without a decision per sample: 8-bit grey and RGB. False: not one of them.
bool PlainRowToRgb(const Layout& layout, const uint8_t* row, int samples, size_t n, uint8_t* rgb) {
  const bool grey = layout.photometric == PHOTOMETRIC_MINISBLACK;
  if (layout.bits != 8 || layout.premultiplied || (!grey && layout.n_colours != 3)) return false;
  const int green = grey ? 0 : 1;
  const int blue = grey ? 0 : 2;
  for (size_t x = 0; x < n; ++x, row += samples, rgb += 3) {
    rgb[0] = row[0];
    rgb[1] = row[green];
    rgb[2] = row[blue];
  }
  return true;
}

// n pixels of interleaved samples (`samples` per pixel) to RGB.
void RowToRgb(const Layout& layout, const uint8_t* row, int samples, size_t n, uint8_t* rgb) {
  if (PlainRowToRgb(layout, row, samples, n, rgb)) return;
  const int bits = layout.bits;
  const int grey_scale = bits < 8 ? 255 / ((1 << bits) - 1) : 1;
  for (size_t x = 0; x < n; ++x, rgb += 3) {
    const size_t at = x * samples;
    std::array<uint8_t, 5> v = {};
    for (int s = 0; s < layout.n_used(); ++s) v[s] = SampleAt(row, bits, at + s);
    switch (layout.photometric) {
      case PHOTOMETRIC_PALETTE:
        std::copy_n(layout.palette[v[0]].data(), 3, rgb);
        continue;
      case PHOTOMETRIC_SEPARATED:
        CmykToRgb(v.data(), 1, rgb);
        continue;
      case PHOTOMETRIC_MINISWHITE:
        v[0] = static_cast<uint8_t>(255 - v[0] * grey_scale);
        break;
      case PHOTOMETRIC_MINISBLACK:
        v[0] = static_cast<uint8_t>(v[0] * grey_scale);
        break;
      default:
        break;
    }
    for (int c = 0; c < 3; ++c) {
      const uint8_t value = v[layout.n_colours == 1 ? 0 : c];
      rgb[c] = layout.premultiplied ? Unmultiplied(value, v[layout.n_colours]) : value;
    }
  }
}

// Reads blocks and converts their rows.
class BlockReader {
 public:
  BlockReader(const CodecInput& in, TIFF* tiff, const Source& source, const Layout& layout, Image& image)
      : in_(in), tiff_(tiff), source_(source), layout_(layout), image_(image) {}

  Status Read() {
    n_planes_ = layout_.separate ? layout_.n_used() : 1;
    const int samples_stored = layout_.separate ? 1 : layout_.samples;
    const uint64_t row_bits = static_cast<uint64_t>(layout_.block_width) * layout_.bits * samples_stored;
    row_bytes_ = static_cast<tmsize_t>((row_bits + 7) / 8);
    const tmsize_t told = layout_.tiled ? TIFFTileRowSize(tiff_) : TIFFScanlineSize(tiff_);
    if (told != row_bytes_) {
      return NotSupported(
          in_, kFormat,
          "it has rows of " + std::to_string(told) + " bytes where " + std::to_string(row_bytes_) + " are expected");
    }
    plane_bytes_ = static_cast<size_t>(row_bytes_) * layout_.block_height;
    block_.resize(plane_bytes_ * n_planes_);
    if (n_planes_ > 1) joined_.resize(static_cast<size_t>(row_bytes_) * n_planes_);
    for (uint32_t y = 0; y < layout_.height; y += layout_.block_height) {
      for (uint32_t x = 0; x < layout_.width; x += layout_.block_width) {
        MINICPM_TRY(ReadBlock(x, y));
        ConvertBlock(x, y);
        if (layout_.width - x <= layout_.block_width) break;  // x + block_width may not fit
      }
      if (layout_.height - y <= layout_.block_height) break;
    }
    return {};
  }

 private:
  Status ReadBlock(uint32_t x, uint32_t y) {
    const uint32_t rows = layout_.tiled ? layout_.block_height : std::min(layout_.block_height, layout_.height - y);
    const tmsize_t wanted = row_bytes_ * static_cast<tmsize_t>(rows);
    for (int p = 0; p < n_planes_; ++p) {
      uint8_t* to = block_.data() + plane_bytes_ * p;
      const auto plane = static_cast<uint16_t>(p);
      const tmsize_t got = layout_.tiled
                               ? TIFFReadEncodedTile(tiff_, TIFFComputeTile(tiff_, x, y, 0, plane), to, wanted)
                               : TIFFReadEncodedStrip(tiff_, TIFFComputeStrip(tiff_, y, plane), to, wanted);
      if (got != wanted) {
        return Broken(in_, kFormat,
                      source_.message[0] != '\0' ? source_.message : "a block is shorter than it must be");
      }
    }
    return {};
  }

  void ConvertBlock(uint32_t x, uint32_t y) {
    const uint32_t rows = std::min(layout_.block_height, layout_.height - y);
    const uint32_t cols = std::min(layout_.block_width, layout_.width - x);
    for (uint32_t r = 0; r < rows; ++r) {
      const uint8_t* row = block_.data() + static_cast<size_t>(row_bytes_) * r;
      uint8_t* rgb = image_.rgb.data() + 3 * (static_cast<size_t>(y + r) * layout_.width + x);
      if (n_planes_ == 1) {
        RowToRgb(layout_, row, layout_.separate ? 1 : layout_.samples, cols, rgb);
      } else {
        Join(row, cols);
        RowToRgb(layout_, joined_.data(), n_planes_, cols, rgb);
      }
    }
  }

  // One row of every plane to interleaved samples. Several planes always have 8 or 16 bits (KnownDepth).
  void Join(const uint8_t* row, uint32_t n) {
    const size_t size = layout_.bits / 8;
    for (int p = 0; p < n_planes_; ++p) {
      const uint8_t* from = row + plane_bytes_ * p;
      for (size_t i = 0; i < n; ++i) std::memcpy(joined_.data() + (i * n_planes_ + p) * size, from + i * size, size);
    }
  }

  const CodecInput& in_;
  TIFF* tiff_;
  const Source& source_;
  const Layout& layout_;
  Image& image_;
  int n_planes_ = 1;
  tmsize_t row_bytes_ = 0;
  size_t plane_bytes_ = 0;
  std::vector<uint8_t> block_;
  std::vector<uint8_t> joined_;
};

// For YCbCr that is subsampled or in planes: libtiff's own conversion, a block's height at a time.
Status ReadThroughRgba(const CodecInput& in, TIFF* tiff, const Source& source, const Layout& layout, Image& image) {
  struct Rgba {
    TIFFRGBAImage image = {};
    bool begun = false;
    ~Rgba() {
      if (begun) TIFFRGBAImageEnd(&image);
    }
  } rgba;
  char message[1024] = "";
  rgba.begun = TIFFRGBAImageOK(tiff, message) != 0 && TIFFRGBAImageBegin(&rgba.image, tiff, 1, message) != 0;
  if (!rgba.begun) return NotSupported(in, kFormat, message);
  rgba.image.orientation = ORIENTATION_TOPLEFT;  // turned later, like every other format
  rgba.image.req_orientation = ORIENTATION_TOPLEFT;
  std::vector<uint32_t> raster(static_cast<size_t>(layout.width) * layout.block_height);
  for (uint32_t y = 0; y < layout.height;) {
    const uint32_t rows = std::min(layout.block_height, layout.height - y);
    rgba.image.row_offset = static_cast<int>(y);
    if (TIFFRGBAImageGet(&rgba.image, raster.data(), layout.width, rows) == 0) {
      return Broken(in, kFormat, source.message[0] != '\0' ? source.message : "a block cannot be decoded");
    }
    uint8_t* rgb = image.rgb.data() + size_t{3} * y * layout.width;
    for (size_t i = 0; i < static_cast<size_t>(rows) * layout.width; ++i, rgb += 3) {
      rgb[0] = static_cast<uint8_t>(TIFFGetR(raster[i]));
      rgb[1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
      rgb[2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
    }
    y += rows;
  }
  return {};
}

int OrientationOf(TIFF* tiff) {
  uint16_t orientation = 0;
  if (TIFFGetField(tiff, TIFFTAG_ORIENTATION, &orientation) != 0) return orientation;
  uint32_t n_bytes = 0;
  void* xmp = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_XMLPACKET, &n_bytes, &xmp) == 0 || xmp == nullptr) return 1;
  return ChooseOrientation({}, std::string_view(static_cast<const char*>(xmp), n_bytes));
}

}  // namespace

Result<Decoded> DecodeTiff(const CodecInput& in) {
  Source source{.data = in.data(), .size = in.size(), .at = 0, .message = ""};
  const TiffPtr tiff = Open(&source, in);
  if (tiff == nullptr) {
    return Broken(in, kFormat, source.message[0] != '\0' ? source.message : "its directory cannot be read");
  }
  MINICPM_TRY(CheckTiffDirectory(in, TIFFCurrentDirOffset(tiff.get())));
  MINICPM_ASSIGN(const Layout layout, ReadLayout(in, tiff.get()));
  Decoded decoded;
  MINICPM_ASSIGN(decoded.image, NewImage(in, kFormat, layout.width, layout.height));
  if (layout.through_rgba) {
    MINICPM_TRY(ReadThroughRgba(in, tiff.get(), source, layout, decoded.image));
  } else {
    MINICPM_TRY(BlockReader(in, tiff.get(), source, layout, decoded.image).Read());
  }
  decoded.orientation = OrientationOf(tiff.get());
  return decoded;
}

}  // namespace minicpm
