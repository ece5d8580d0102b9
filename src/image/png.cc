// PNG through libpng: all colour types and depths, interlaced or not; alpha and transparency are dropped, 16 bits >> 8.
// Not for animation (an APNG gives its default picture) and not for colour management (gamma and profiles are ignored).
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "image/codec.h"

namespace minicpm {
namespace {

constexpr const char* kFormat = "PNG";
constexpr png_alloc_size_t kMaxChunkBytes = 1'000'000;  // of a text after inflating; larger ones are left out
constexpr png_uint_32 kMaxChunks = 50;                  // texts and the like that are kept

// Everything that C code and longjmp touch; the vectors behind the pointers are owned by Run.
struct Job {
  png_structp png;
  png_infop info;
  png_infop end;
  const uint8_t* next;
  size_t left;
  char message[160];
  bool single;       // one sample per pixel: grey or palette index
  uint8_t* pixels;   // [height, width, 3], or nullptr while `samples` is used
  uint8_t* samples;  // single: [height, width] when interlaced, else [width]
  uint8_t lookup[256][3];
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  Job* job = static_cast<Job*>(png_get_error_ptr(png));
  std::snprintf(job->message, sizeof job->message, "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void OnRead(png_structp png, png_bytep to, size_t n) {
  Job* job = static_cast<Job*>(png_get_io_ptr(png));
  if (n > job->left) png_error(png, "the file ends too early");
  std::memcpy(to, job->next, n);
  job->next += n;
  job->left -= n;
}

// Whether the chunks fill the file up to the end mark. libpng believes a chunk's length and allocates it (up to 2 GB)
// before it notices that the file is shorter.
bool ChunksAreWhole(const CodecInput& in) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12;  // length, name, checksum
  size_t at = kSignature;
  while (at < in.size() && in.size() - at >= kAround) {
    const uint8_t* p = in.data() + at;
    const size_t length = static_cast<size_t>(p[0]) << 24 | p[1] << 16 | p[2] << 8 | p[3];
    if (length > in.size() - at - kAround) return false;
    if (std::memcmp(p + 4, "IEND", 4) == 0) return true;
    at += kAround + length;
  }
  return false;
}

// The functions with setjmp hold no object that needs destroying.

bool ReadHeader(Job* job) {
  if (setjmp(png_jmpbuf(job->png)) != 0) return false;
  png_set_read_fn(job->png, job, OnRead);
  // Our own pixel limit follows; libpng's default of a million a side would refuse line-scan pictures.
  png_set_user_limits(job->png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(job->png, kMaxChunkBytes);
  png_set_chunk_cache_max(job->png, kMaxChunks);
#ifdef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
  static const png_byte kUnread[] =
      "iCCP\0sPLT\0hIST\0pCAL\0sCAL\0cHRM\0gAMA\0sRGB\0sBIT";  // pixels do not depend on them
  png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, kUnread, sizeof kUnread / 5);
#endif
  png_read_info(job->png, job->info);
  return true;
}

void Triple(const uint8_t (*lookup)[3], const uint8_t* samples, size_t n, uint8_t* rgb) {
  for (size_t i = 0; i < n; ++i) std::memcpy(rgb + 3 * i, lookup[samples[i]], 3);
}

bool ReadRows(Job* job) {
  if (setjmp(png_jmpbuf(job->png)) != 0) return false;
  png_structp png = job->png;
  const int colour = png_get_color_type(png, job->info);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    png_set_packing(png);
  } else {
    png_set_expand_gray_1_2_4_to_8(png);
  }
  const int n_passes = png_set_interlace_handling(png);
  png_read_update_info(png, job->info);
  const size_t width = png_get_image_width(png, job->info);
  const size_t height = png_get_image_height(png, job->info);
  if (png_get_rowbytes(png, job->info) != width * (job->single ? 1 : 3)) png_error(png, "unexpected row size");
  for (int pass = 0; pass < n_passes; ++pass) {
    for (size_t y = 0; y < height; ++y) {
      uint8_t* rgb = job->pixels + 3 * width * y;
      uint8_t* row = !job->single ? rgb : n_passes == 1 ? job->samples : job->samples + width * y;
      png_read_row(png, row, nullptr);
      if (job->single && pass == n_passes - 1) Triple(job->lookup, row, width, rgb);
    }
  }
  png_read_end(png, job->end);
  return true;
}

// Grey gives itself; palette entries that the file does not define are black.
void FillLookup(Job* job) {
  png_colorp palette = nullptr;
  int n_colours = 0;
  const bool indexed = png_get_color_type(job->png, job->info) == PNG_COLOR_TYPE_PALETTE;
  if (indexed) png_get_PLTE(job->png, job->info, &palette, &n_colours);
  for (int i = 0; i < 256; ++i) {
    uint8_t* rgb = job->lookup[i];
    if (!indexed) {
      rgb[0] = rgb[1] = rgb[2] = static_cast<uint8_t>(i);
    } else if (i < n_colours) {
      rgb[0] = palette[i].red;
      rgb[1] = palette[i].green;
      rgb[2] = palette[i].blue;
    }
  }
}

// ImageMagick's way of storing EXIF in a text chunk: newline, "exif", newline, length, newline, hexadecimal digits.
std::vector<std::byte> RawProfile(std::string_view text) {
  std::vector<std::byte> bytes;
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return bytes;
    text.remove_prefix(end + 1);
  }
  int high = -1;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) continue;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<std::byte>(16 * high + digit));
      high = -1;
    }
  }
  return bytes;
}

// From the chunks before (`job.info`) and after the pixels (`job.end`).
int OrientationOf(const Job& job) {
  std::vector<std::byte> exif;
  std::vector<std::byte> profile;
  std::string xmp;
  for (png_infop info : {job.info, job.end}) {
    png_bytep data = nullptr;
    png_uint_32 n_bytes = 0;
    if (png_get_eXIf_1(job.png, info, &n_bytes, &data) != 0 && data != nullptr) {
      const auto* bytes = reinterpret_cast<const std::byte*>(data);
      exif.assign(bytes, bytes + n_bytes);
    }
    png_textp texts = nullptr;
    int n_texts = 0;
    png_get_text(job.png, info, &texts, &n_texts);
    for (int i = 0; i < n_texts; ++i) {
      const png_text& text = texts[i];
      if (text.text == nullptr) continue;
      const size_t length = text.itxt_length > 0 ? text.itxt_length : text.text_length;
      const std::string_view key = text.key;
      if (key == "XML:com.adobe.xmp") xmp.assign(text.text, length);
      if (key == "Raw profile type exif") profile = RawProfile({text.text, length});
    }
  }
  return ChooseOrientation(exif.empty() ? profile : exif, xmp);
}

Result<Decoded> Run(Job* job, const CodecInput& in) {
  if (!ReadHeader(job)) return Broken(in, kFormat, job->message);
  const size_t width = png_get_image_width(job->png, job->info);
  const size_t height = png_get_image_height(job->png, job->info);
  Decoded decoded;
  MINICPM_ASSIGN(decoded.image, NewImage(in, kFormat, width, height));
  const int colour = png_get_color_type(job->png, job->info);
  const bool interlaced = png_get_interlace_type(job->png, job->info) != PNG_INTERLACE_NONE;
  job->single = (colour & PNG_COLOR_MASK_COLOR) == 0 || colour == PNG_COLOR_TYPE_PALETTE;
  std::vector<uint8_t> samples(!job->single ? 0 : interlaced ? width * height : width);
  FillLookup(job);
  job->pixels = decoded.image.rgb.data();
  job->samples = samples.data();
  if (!ReadRows(job)) return Broken(in, kFormat, job->message);
  decoded.orientation = OrientationOf(*job);
  return decoded;
}

}  // namespace

Result<Decoded> DecodePng(const CodecInput& in) {
  if (!ChunksAreWhole(in)) return Broken(in, kFormat, "the file ends too early");
  Job job = {};
  job.next = in.data();
  job.left = in.size();
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, OnError, OnWarning);
  struct Cleanup {
    Job* job;
    ~Cleanup() { png_destroy_read_struct(&job->png, &job->info, &job->end); }
  } const cleanup{&job};
  if (job.png != nullptr) job.info = png_create_info_struct(job.png);
  if (job.info != nullptr) job.end = png_create_info_struct(job.png);
  if (job.end == nullptr) {
    return Fail(ErrorCode::kResourceExhausted, in.name + ": not enough memory for libpng");
  }
  return Run(&job, in);
}

}  // namespace minicpm
