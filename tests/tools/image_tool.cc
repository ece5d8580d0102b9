// image_tool: the image room on the command line, so that reference/check_images.py can compare it with Pillow.
// Not a product: it has no options to speak of, and its output may change with its only user.
//
//   image_tool decode FILE            "W H CRC32" of the decoded RGB bytes, or "error CODE MESSAGE"
//   image_tool decode-to FILE OUT     the same, and the bytes to OUT
//   image_tool batch                  lines "W H NEW_W NEW_H" from stdin -> CRC32 of the resized test pattern
//   image_tool plan                   lines "W H" from stdin -> "overview_w overview_h cols rows slice_w slice_h"
//   image_tool views                  lines "W H" from stdin -> CRC32 of every view of the test pattern
//   image_tool views-of FILE          the same of a picture file
//   image_tool time W H NEW_W NEW_H N CPU milliseconds of the fastest of N resizes of the test pattern
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>

#include "image/image.h"
#include "image/slicing.h"
#include "tests/support/picture.h"

namespace minicpm {
namespace {

int Decode(const std::string& path, const std::string& out) {
  const Result<Image> image = LoadImage(path);
  if (!image.has_value()) {
    std::cout << "error " << ErrorCodeName(image.error().code) << ' ' << image.error().message << '\n';
    return 1;
  }
  std::cout << image->width << ' ' << image->height << ' ' << Crc32(image->rgb) << '\n';
  if (!out.empty()) {
    std::ofstream file(out, std::ios::binary);
    file.write(reinterpret_cast<const char*>(image->rgb.data()), static_cast<std::streamsize>(image->rgb.size()));
  }
  return 0;
}

int Batch() {
  int w, h, new_w, new_h;
  while (std::cin >> w >> h >> new_w >> new_h) {
    std::cout << Crc32(ResizeBicubic(PatternPicture(w, h), new_w, new_h).rgb) << '\n';
  }
  return 0;
}

int Plan() {
  int w, h;
  while (std::cin >> w >> h) {
    const SlicePlan p = PlanSlices({w, h}, SliceConfig{});
    std::cout << p.overview.width << ' ' << p.overview.height << ' ' << p.cols << ' ' << p.rows << ' ' << p.slice.width
              << ' ' << p.slice.height << '\n';
  }
  return 0;
}

void PrintViews(const Image& image) {
  const SliceConfig config;
  const auto views = CutViews(image, PlanSlices({image.width, image.height}, config), config);
  for (const Image& view : views.value()) std::cout << Crc32(view.rgb) << ' ';
  std::cout << '\n';
}

int Views() {
  int w, h;
  while (std::cin >> w >> h) PrintViews(PatternPicture(w, h));
  return 0;
}

int ViewsOf(const std::string& path) {
  const Result<Image> image = LoadImage(path);
  if (!image.has_value()) {
    std::cerr << image.error().message << '\n';
    return 1;
  }
  PrintViews(*image);
  return 0;
}

int Time(int w, int h, int new_w, int new_h, int n) {
  const Image image = PatternPicture(w, h);
  double best = 1e30;
  for (int i = 0; i < n; ++i) {
    const std::clock_t start = std::clock();
    const Image small = ResizeBicubic(image, new_w, new_h);
    if (small.rgb.empty()) return 1;
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::cout << best << '\n';
  return 0;
}

int Main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "decode" && argc == 3) return Decode(argv[2], "");
  if (verb == "decode-to" && argc == 4) return Decode(argv[2], argv[3]);
  if (verb == "batch") return Batch();
  if (verb == "plan") return Plan();
  if (verb == "views") return Views();
  if (verb == "views-of" && argc == 3) return ViewsOf(argv[2]);
  if (verb == "time" && argc == 7) {
    return Time(std::stoi(argv[2]), std::stoi(argv[3]), std::stoi(argv[4]), std::stoi(argv[5]), std::stoi(argv[6]));
  }
  std::cerr << "usage: see the head of tests/tools/image_tool.cc\n";
  return 2;
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) { return minicpm::Main(argc, argv); }
