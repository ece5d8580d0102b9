// GIF through giflib: the first frame on its canvas, with local or global palette, interlaced or not.
// Not for animation: later frames are only walked over, to notice a file that was cut off.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "image/codec.h"

namespace minicpm {
namespace {

constexpr const char* kFormat = "GIF";

struct Source {
  const uint8_t* data;
  size_t size;
  size_t at;
};

int Read(GifFileType* gif, GifByteType* to, int n) {
  auto* source = static_cast<Source*>(gif->UserData);
  const size_t available = std::min(static_cast<size_t>(std::max(n, 0)), source->size - source->at);
  std::memcpy(to, source->data + source->at, available);
  source->at += available;
  return static_cast<int>(available);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

std::unexpected<Error> GifError(const CodecInput& in, int code) {
  const char* text = GifErrorString(code);
  return Broken(in, kFormat, text != nullptr ? text : "it is damaged or ends too early");
}

// Walks from behind the first picture to the trailer without decoding anything.
Status WalkToTrailer(const CodecInput& in, size_t at) {
  const uint8_t* data = in.data();
  const auto end = Broken(in, kFormat, "the file ends too early");
  while (at < in.size()) {
    const uint8_t kind = data[at++];
    if (kind == 0x3b) return {};  // trailer
    if (kind == 0x21) {           // extension: label, then sub-blocks
      at += 1;
    } else if (kind == 0x2c) {  // picture: 9 bytes of description, palette, code size, then sub-blocks
      if (in.size() - at < 9) return end;
      const uint8_t flags = data[at + 8];
      at += 9 + ((flags & 0x80) != 0 ? size_t{3} << ((flags & 7) + 1) : 0) + 1;
    } else if (kind == 0) {
      continue;  // padding that some programs leave between blocks
    } else {
      return Broken(in, kFormat, "there is an unknown block of kind " + std::to_string(kind));
    }
    while (true) {
      if (at >= in.size()) return end;
      const uint8_t n = data[at];
      at += size_t{1} + n;
      if (n == 0) break;
    }
  }
  return end;
}

// Reads blocks up to the first picture's description. Returns the transparent index of its control block, -1 for none.
Result<int> FindPicture(const CodecInput& in, GifFileType* gif) {
  int transparent = -1;
  while (true) {
    GifRecordType kind = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &kind) == GIF_ERROR) return GifError(in, gif->Error);
    if (kind == TERMINATE_RECORD_TYPE) return Broken(in, kFormat, "it holds no picture");
    if (kind == IMAGE_DESC_RECORD_TYPE) break;
    if (kind != EXTENSION_RECORD_TYPE) continue;
    int label = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif, &label, &block) == GIF_ERROR) return GifError(in, gif->Error);
    if (label == GRAPHICS_EXT_FUNC_CODE && block != nullptr && block[0] >= 4 && (block[1] & 1) != 0) {
      transparent = block[4];
    }
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return GifError(in, gif->Error);
    }
  }
  if (DGifGetImageDesc(gif) == GIF_ERROR) return GifError(in, gif->Error);
  return transparent;
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

// Local before global; a file without either is grey. Entries that the file does not define are black.
Palette PaletteOf(const GifFileType& gif) {
  Palette palette = {};
  const ColorMapObject* map = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap;
  for (int i = 0; i < 256; ++i) {
    if (map == nullptr) {
      palette[i].fill(static_cast<uint8_t>(i));
    } else if (i < map->ColorCount) {
      palette[i] = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue};
    }
  }
  return palette;
}

// The four passes of an interlaced picture, or one.
Status ReadRows(const CodecInput& in, GifFileType* gif, const Palette& palette, Image& image) {
  const GifImageDesc& frame = gif->Image;
  const bool interlaced = frame.Interlace;
  constexpr int kStart[] = {0, 4, 2, 1};
  constexpr int kStep[] = {8, 8, 4, 2};
  std::vector<GifPixelType> line(frame.Width);
  for (int pass = 0; pass < (interlaced ? 4 : 1); ++pass) {
    const int step = interlaced ? kStep[pass] : 1;
    for (int y = interlaced ? kStart[pass] : 0; y < frame.Height; y += step) {
      if (DGifGetLine(gif, line.data(), frame.Width) == GIF_ERROR) return GifError(in, gif->Error);
      uint8_t* rgb = image.rgb.data() + 3 * (static_cast<size_t>(frame.Top + y) * image.width + frame.Left);
      for (int x = 0; x < frame.Width; ++x, rgb += 3) std::memcpy(rgb, palette[line[x]].data(), 3);
    }
  }
  return {};
}

}  // namespace

Result<Decoded> DecodeGif(const CodecInput& in) {
  Source source{.data = in.data(), .size = in.size(), .at = 0};
  int error = 0;
  const std::unique_ptr<GifFileType, CloseGif> gif(DGifOpen(&source, Read, &error));
  if (gif == nullptr) return GifError(in, error);
  MINICPM_ASSIGN(const int transparent, FindPicture(in, gif.get()));
  const GifImageDesc& frame = gif->Image;
  if (frame.Left < 0 || frame.Top < 0 || frame.Width < 1 || frame.Height < 1) {
    return Broken(in, kFormat, "its first picture is empty");
  }
  // As in Pillow, a picture that reaches beyond the screen enlarges it.
  const uint64_t width = std::max(gif->SWidth, frame.Left + frame.Width);
  const uint64_t height = std::max(gif->SHeight, frame.Top + frame.Height);
  Decoded decoded;
  MINICPM_ASSIGN(decoded.image, NewImage(in, kFormat, width, height));
  const Palette palette = PaletteOf(*gif);
  std::vector<uint8_t>& rgb = decoded.image.rgb;
  const auto& background = palette[transparent >= 0 ? transparent : 0];
  const bool covers_all = static_cast<uint64_t>(frame.Width) == width && static_cast<uint64_t>(frame.Height) == height;
  for (size_t i = 0; !covers_all && i < rgb.size(); i += 3) std::copy_n(background.data(), 3, rgb.data() + i);
  MINICPM_TRY(ReadRows(in, gif.get(), palette, decoded.image));
  MINICPM_TRY(WalkToTrailer(in, source.at));
  return decoded;
}

}  // namespace minicpm
