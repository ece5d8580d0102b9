// WebP through libwebp and libwebpdemux: lossy, lossless, with alpha (dropped), the first frame of an animation.
// Not for later frames.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>
#include <span>
#include <string_view>

#include "image/codec.h"

namespace minicpm {
namespace {

constexpr const char* kFormat = "WebP";

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

// Contents of the first chunk of that name, empty when there is none. Lifetime: that of the file's bytes.
std::span<const std::byte> Chunk(const WebPDemuxer* demuxer, const char* fourcc) {
  WebPChunkIterator chunk = {};
  std::span<const std::byte> bytes;
  if (WebPDemuxGetChunk(demuxer, fourcc, 1, &chunk) != 0) {
    bytes = std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size));
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return bytes;
}

}  // namespace

Result<Decoded> DecodeWebp(const CodecInput& in) {
  const WebPData data{.bytes = in.data(), .size = in.size()};
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  if (demuxer == nullptr) return Broken(in, kFormat, "its structure is damaged or it ends too early");
  const uint32_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const uint32_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  Decoded decoded;
  MINICPM_ASSIGN(decoded.image, NewImage(in, kFormat, width, height));
  struct Frame {
    WebPIterator it = {};
    ~Frame() { WebPDemuxReleaseIterator(&it); }
  } frame;
  if (WebPDemuxGetFrame(demuxer.get(), 1, &frame.it) == 0 || frame.it.complete == 0) {
    return Broken(in, kFormat, "it holds no complete picture");
  }
  const WebPIterator& it = frame.it;
  if (it.x_offset < 0 || it.y_offset < 0 || it.width < 1 || it.height < 1 ||
      static_cast<uint64_t>(it.x_offset) + it.width > width ||
      static_cast<uint64_t>(it.y_offset) + it.height > height) {
    return Broken(in, kFormat, "its first frame does not fit in its canvas");
  }
  int frame_width = 0;
  int frame_height = 0;
  if (WebPGetInfo(it.fragment.bytes, it.fragment.size, &frame_width, &frame_height) == 0 || frame_width != it.width ||
      frame_height != it.height) {
    return Broken(in, kFormat, "the size in its picture data differs from the size in its header");
  }
  // A first frame smaller than the canvas stands on black.
  const size_t stride = size_t{3} * width;
  const size_t at = stride * it.y_offset + size_t{3} * it.x_offset;
  if (WebPDecodeRGBInto(it.fragment.bytes, it.fragment.size, decoded.image.rgb.data() + at,
                        decoded.image.rgb.size() - at, static_cast<int>(stride)) == nullptr) {
    return Broken(in, kFormat, "its picture data is damaged or ends too early");
  }
  const auto xmp = Chunk(demuxer.get(), "XMP ");
  decoded.orientation = ChooseOrientation(Chunk(demuxer.get(), "EXIF"),
                                          std::string_view(reinterpret_cast<const char*>(xmp.data()), xmp.size()));
  return decoded;
}

}  // namespace minicpm
