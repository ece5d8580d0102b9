// JPEG through libjpeg-turbo: grey, RGB, YCbCr, CMYK and YCCK, sequential and progressive. Not for orientation rules.
// Unlike most viewers this reader refuses damaged entropy data: half a picture must not pass for a whole one.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

// After <cstdio>, and in this order: they do not include what they need.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "image/codec.h"

namespace minicpm {
namespace {

constexpr const char* kFormat = "JPEG";
// Real files have a dozen or so; each one costs a pass over the whole picture.
constexpr int kMaxScans = 64;
constexpr std::string_view kExifStart("Exif\0\0", 6);
constexpr std::string_view kXmpStart("http://ns.adobe.com/xap/1.0/\0", 29);

// Everything that C code and longjmp touch. Plain data, except what `pixels` and `line` point to, which others own.
struct Job {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  uint8_t* pixels;
  uint8_t* line;  // one row of grey or CMYK samples
};

[[noreturn]] void OnError(j_common_ptr info) {
  Job* job = static_cast<Job*>(info->client_data);
  info->err->format_message(info, job->message);
  std::longjmp(job->jump, 1);
}

// Warnings that mean lost picture data count as errors, the rest is nobody's business.
void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_JPEG_EOF:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      OnError(info);
    default:
      break;
  }
}

void OnOutput(j_common_ptr) {}

void OnProgress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  Job* job = static_cast<Job*>(info->client_data);
  if (decompress->input_scan_number <= kMaxScans) return;
  std::snprintf(job->message, sizeof job->message, "it has more than %d scans", kMaxScans);
  std::longjmp(job->jump, 1);
}

// The functions with setjmp hold no object that needs destroying.

bool ReadHeader(Job* job, const CodecInput& in) {
  if (setjmp(job->jump) != 0) return false;
  jpeg_create_decompress(&job->info);
  job->info.client_data = job;
  job->progress.progress_monitor = OnProgress;
  job->info.progress = &job->progress;
  jpeg_mem_src(&job->info, in.data(), in.size());
  jpeg_save_markers(&job->info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&job->info, TRUE);
  return true;
}

bool ReadRows(Job* job) {
  if (setjmp(job->jump) != 0) return false;
  jpeg_decompress_struct* info = &job->info;
  jpeg_start_decompress(info);
  const size_t width = info->output_width;
  while (info->output_scanline < info->output_height) {
    uint8_t* row = job->pixels + 3 * width * info->output_scanline;
    JSAMPROW target = info->output_components == 3 ? row : job->line;
    if (jpeg_read_scanlines(info, &target, 1) != 1) continue;
    if (info->output_components == 1) {
      for (size_t x = 0; x < width; ++x) row[3 * x] = row[3 * x + 1] = row[3 * x + 2] = job->line[x];
    } else if (info->output_components == 4) {
      // Stored inverted, as Adobe's programs do; Pillow takes that for granted and so do we.
      for (size_t i = 0; i < 4 * width; ++i) job->line[i] = static_cast<uint8_t>(255 - job->line[i]);
      CmykToRgb(job->line, width, row);
    }
  }
  jpeg_finish_decompress(info);  // reads on to the end marker, so a cut tail is noticed
  return true;
}

int OrientationOf(const jpeg_decompress_struct& info) {
  std::string_view exif;
  std::string_view xmp;
  for (const jpeg_marker_struct* m = info.marker_list; m != nullptr; m = m->next) {
    const std::string_view data(reinterpret_cast<const char*>(m->data), m->data_length);
    if (exif.empty() && data.starts_with(kExifStart)) exif = data;
    if (data.starts_with(kXmpStart)) xmp = data.substr(kXmpStart.size());
  }
  return ChooseOrientation(std::as_bytes(std::span(exif)), xmp);
}

Result<Decoded> Run(Job* job, const CodecInput& in) {
  if (!ReadHeader(job, in)) return Broken(in, kFormat, job->message);
  jpeg_decompress_struct& info = job->info;
  switch (info.num_components) {
    case 1:
      info.out_color_space = JCS_GRAYSCALE;
      break;
    case 3:
      info.out_color_space = JCS_RGB;
      break;
    case 4:
      info.out_color_space = JCS_CMYK;
      break;
    default:
      return NotSupported(in, kFormat, "it has " + std::to_string(info.num_components) + " colour components");
  }
  Decoded decoded;
  MINICPM_ASSIGN(decoded.image, NewImage(in, kFormat, info.image_width, info.image_height));
  decoded.orientation = OrientationOf(info);
  std::vector<uint8_t> line(info.num_components == 3 ? 0 : size_t{4} * info.image_width);
  job->pixels = decoded.image.rgb.data();
  job->line = line.data();
  if (!ReadRows(job)) return Broken(in, kFormat, job->message);
  return decoded;
}

}  // namespace

Result<Decoded> DecodeJpeg(const CodecInput& in) {
  Job job = {};
  job.info.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = OnError;
  job.errors.emit_message = OnMessage;
  job.errors.output_message = OnOutput;
  job.info.client_data = &job;
  struct Cleanup {
    jpeg_decompress_struct* info;
    ~Cleanup() { jpeg_destroy_decompress(info); }
  } const cleanup{&job.info};
  return Run(&job, in);
}

}  // namespace minicpm
