// libjpeg-turbo's compressor into memory. Not for anything but 8-bit RGB.
#include "video/jpeg_encoder.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

// After <cstdio>, which it does not include.
#include <jpeglib.h>

namespace minicpm {
namespace {

// Everything that C code and longjmp touch; plain data.
struct Job {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  unsigned char* out;
  unsigned long bytes;
};

[[noreturn]] void OnError(j_common_ptr info) {
  Job* job = static_cast<Job*>(info->client_data);
  info->err->format_message(info, job->message);
  std::longjmp(job->jump, 1);
}
void OnMessage(j_common_ptr, int) {}
void OnOutput(j_common_ptr) {}

// Holds no object that needs destroying.
bool Compress(Job* job, const uint8_t* rgb, int width, int height, int quality) {
  if (setjmp(job->jump) != 0) return false;
  jpeg_create_compress(&job->info);
  job->info.client_data = job;
  jpeg_mem_dest(&job->info, &job->out, &job->bytes);
  job->info.image_width = static_cast<JDIMENSION>(width);
  job->info.image_height = static_cast<JDIMENSION>(height);
  job->info.input_components = 3;
  job->info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&job->info);
  jpeg_set_quality(&job->info, quality, TRUE);
  jpeg_start_compress(&job->info, TRUE);
  while (job->info.next_scanline < job->info.image_height) {
    auto* row = const_cast<JSAMPROW>(rgb + size_t{3} * static_cast<size_t>(width) * job->info.next_scanline);
    jpeg_write_scanlines(&job->info, &row, 1);
  }
  jpeg_finish_compress(&job->info);
  return true;
}

}  // namespace

Result<std::vector<std::byte>> EncodeJpeg(const Image& image, int quality) {
  MINICPM_CHECK(image.width >= 1 && image.height >= 1 && quality >= 1 && quality <= 100);
  Job job = {};
  job.info.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = OnError;
  job.errors.emit_message = OnMessage;
  job.errors.output_message = OnOutput;
  job.info.client_data = &job;
  struct Cleanup {
    Job* job;
    ~Cleanup() {
      jpeg_destroy_compress(&job->info);
      std::free(job->out);
    }
  } const cleanup{&job};
  if (!Compress(&job, image.rgb.data(), image.width, image.height, quality)) {
    return Fail(ErrorCode::kUnsupported, std::string("cannot encode a picture as JPEG: ") + Printable(job.message));
  }
  std::vector<std::byte> bytes(job.bytes);
  std::memcpy(bytes.data(), job.out, job.bytes);
  return bytes;
}

}  // namespace minicpm
