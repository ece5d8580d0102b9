// Writes the clips of tests/support/clip.h for tools/watch-demo, and looks for the text on a recorded video. Not part
// of the product.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "tests/support/clip.h"
#include "video/video.h"

namespace {

using minicpm::test::ClipSpec;

bool ReadNumber(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

int Usage() {
  std::fputs(
      "usage: clip_tool write OUT.y4m [width N] [height N] [frames N] [fps N] [defect-from N] [moving 1] [noise N]\n"
      "       clip_tool text VIDEO    for each frame: the share of nearly white pixels in its lower left quarter\n"
      "       clip_tool other-than    a regular expression for every text but that of the JSON line on stdin\n",
      stderr);
  return 2;
}

int Write(int argc, char** argv) {
  ClipSpec spec;
  int moving = 0;
  const struct {
    const char* name;
    int* value;
  } options[] = {{"width", &spec.width}, {"height", &spec.height},           {"frames", &spec.n_frames},
                 {"fps", &spec.fps},     {"defect-from", &spec.defect_from}, {"moving", &moving},
                 {"noise", &spec.noise}};
  for (int i = 3; i < argc; i += 2) {
    bool known = false;
    for (const auto& option : options) {
      if (std::strcmp(argv[i], option.name) != 0) continue;
      known = i + 1 < argc && ReadNumber(argv[i + 1], *option.value);
    }
    if (!known) return Usage();
  }
  spec.moving_part = moving != 0;
  if (!minicpm::test::WriteClip(argv[2], spec)) {
    std::fprintf(stderr, "%s: cannot be written\n", argv[2]);
    return 1;
  }
  return 0;
}

int Text(const std::string& path) {
  const auto reader = minicpm::OpenVideo(path, nullptr);
  if (!reader.has_value()) {
    std::fprintf(stderr, "%s\n", reader.error().message.c_str());
    return 1;
  }
  for (int64_t i = 0; i < (*reader)->info().n_frames; ++i) {
    const auto frame = (*reader)->Frame(i);
    if (!frame.has_value()) {
      std::fprintf(stderr, "%s\n", frame.error().message.c_str());
      return 1;
    }
    int64_t n_white = 0;
    for (int y = frame->height / 2; y < frame->height; ++y) {
      for (int x = 0; x < frame->width / 2; ++x) {
        n_white += frame->rgb[3 * (static_cast<size_t>(y) * frame->width + x)] > 225 ? 1 : 0;
      }
    }
    std::printf("%lld %.5f\n", static_cast<long long>(i),
                static_cast<double>(n_white) / (static_cast<double>(frame->width) * frame->height / 4));
  }
  return 0;
}

int OtherThan() {
  std::string line;
  std::getline(std::cin, line);
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string()) return Usage();
  const auto text = json["text"].get<std::string>();
  std::string pattern = "\\A(?!";
  for (size_t pos = 0; pos < text.size();) {
    const minicpm::Utf8Char c = minicpm::DecodeUtf8(text, pos);
    char item[16];
    std::snprintf(item, sizeof item, "\\x{%x}", static_cast<unsigned>(c.code_point));
    pattern += item;
    pos += c.length;
  }
  std::puts((pattern + "\\z)").c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::strcmp(argv[1], "write") == 0) return Write(argc, argv);
  if (argc == 3 && std::strcmp(argv[1], "text") == 0) return Text(argv[2]);
  if (argc == 2 && std::strcmp(argv[1], "other-than") == 0) return OtherThan();
  return Usage();
}
