// The FFmpeg plugin against files that the ffmpeg program makes, and against what that program itself decodes.
// Skipped, with the reason, where the plugin or the program is missing.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"
#include "video/video.h"
#include "video/video_writer.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

class Plugin : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = MediaPlugin::Find();
    ASSERT_TRUE(found.has_value()) << found.error().message;
    if (*found == nullptr) GTEST_SKIP() << "the FFmpeg plugin was not built (tools/setup --media)";
    plugin_ = std::move(*found);
    if (std::system("command -v ffmpeg >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "no ffmpeg program to make test files with (tools/setup --media)";
    }
  }

  // Runs ffmpeg in the test's folder; the last argument names a file there.
  std::string Make(const std::string& arguments, const std::string& name) const {
    const std::string command = "cd " + folder_.path() + " && ffmpeg -nostdin -hide_banner -v error -y " + arguments +
                                " " + name + " >/dev/null 2>ffmpeg.log";
    EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << test::ReadFileBytes(folder_.File("ffmpeg.log"));
    return folder_.File(name);
  }
  // What the program itself decodes.
  std::string Rgb(const std::string& name) const {
    return test::ReadFileBytes(Make("-i " + name + " -vsync passthrough -f rawvideo -pix_fmt rgb24", name + ".rgb"));
  }

  Result<std::unique_ptr<VideoReader>> Open(const std::string& path, const VideoLimits& limits = {}) const {
    return OpenVideo(path, plugin_.get(), limits);
  }
  std::string ErrorOf(const std::string& path) const {
    const auto reader = Open(path);
    return reader.has_value() ? "it was read" : reader.error().message;
  }

  // Every frame, asked for out of order, equals the program's. Returns the largest difference of any value.
  int Differences(VideoReader& reader, const std::string& rgb) const {
    const int64_t n = reader.info().n_frames;
    const size_t bytes = size_t{3} * reader.info().width * reader.info().height;
    EXPECT_EQ(rgb.size(), bytes * static_cast<size_t>(n));
    if (rgb.size() != bytes * static_cast<size_t>(n)) return 255;
    int most = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = i * 37 % n;  // all of them when 37 does not divide n
      const Image image = reader.Frame(index).value();
      EXPECT_EQ(image.rgb.size(), bytes);
      for (size_t k = 0; k < bytes; ++k) {
        most =
            std::max(most, std::abs(image.rgb[k] - static_cast<uint8_t>(rgb[bytes * static_cast<size_t>(index) + k])));
      }
    }
    return most;
  }

  test::TempDir folder_;
  std::shared_ptr<const MediaPlugin> plugin_;
};

constexpr const char* kPicture = "-f lavfi -i testsrc2=size=96x64:rate=25:duration=1 ";
constexpr const char* kTone = "-f lavfi -i sine=frequency=500:sample_rate=44100:duration=3 ";

TEST_F(Plugin, SaysWhatItIs) { EXPECT_THAT(plugin_->description(), HasSubstr("libavformat")); }

TEST_F(Plugin, ReadsTheFramesThatFfmpegReads) {
  for (const char* codec :
       {"-c:v libx264 -g 12 -bf 2 ", "-c:v mpeg4 -g 12 -bf 2 ", "-c:v libx264 -g 300 -x264-params open-gop=1 "}) {
    const std::string path = Make(std::string(kPicture) + codec + "-pix_fmt yuv420p", "a.mp4");
    const auto reader = Open(path).value();
    EXPECT_EQ(reader->info().n_frames, 25);
    EXPECT_NEAR(reader->info().fps, 25, 1e-9);
    EXPECT_NEAR(reader->info().duration_s, 1, 1e-9);
    EXPECT_FALSE(reader->info().has_sound);
    EXPECT_NEAR(reader->TimeOf(24), 0.96, 1e-6);
    EXPECT_EQ(Differences(*reader, Rgb("a.mp4")), 0) << codec;
    EXPECT_FALSE(LoadSound(path, plugin_.get()).value().has_value());
  }
}

TEST_F(Plugin, TurnsWhatAPhoneHeldUpright) {
  Make(std::string(kPicture) + "-c:v libx264 -pix_fmt yuv420p", "flat.mp4");
  for (const char* degrees : {"90", "180", "270"}) {
    const std::string path = Make(std::string("-i flat.mp4 -c copy -metadata:s:v rotate=") + degrees, "turned.mp4");
    const auto reader = Open(path).value();
    EXPECT_EQ(reader->info().width, std::string(degrees) == "180" ? 96 : 64);
    // ffmpeg turns before it converts colours, this plugin after, which moves where chroma is shared.
    const std::string rgb = Rgb("turned.mp4");
    EXPECT_LE(Differences(*reader, rgb), 2) << degrees;
  }
}

TEST_F(Plugin, VariableRateKeepsItsTimes) {
  const std::string path =
      Make(std::string(kPicture) + "-vf \"select='lt(n,10)+not(mod(n,5))'\" -vsync vfr -c:v libx264 -pix_fmt yuv420p",
           "vfr.mp4");
  const auto reader = Open(path).value();
  ASSERT_EQ(reader->info().n_frames, 13);
  EXPECT_NEAR(reader->TimeOf(9), 0.36, 1e-3);
  EXPECT_NEAR(reader->TimeOf(10), 0.4, 1e-3);
  EXPECT_NEAR(reader->TimeOf(11), 0.6, 1e-3);
  EXPECT_NEAR(reader->info().fps, 13, 3);
  EXPECT_EQ(Differences(*reader, Rgb("vfr.mp4")), 0);
}

TEST_F(Plugin, MoreDepthsAndContainers) {
  Make(std::string(kPicture) + "-c:v libx264 -pix_fmt yuv420p10le", "ten.mp4");
  EXPECT_EQ(Differences(*Open(folder_.File("ten.mp4")).value(), Rgb("ten.mp4")), 0);
  Make(std::string(kPicture) + "-c:v libx264 -pix_fmt yuv444p -vf scale=out_color_matrix=bt709 -colorspace bt709",
       "full.mkv");
  EXPECT_LE(Differences(*Open(folder_.File("full.mkv")).value(), Rgb("full.mkv")), 1);
  Make(std::string(kPicture) + kTone + "-c:v libvpx -deadline realtime -cpu-used 8 -c:a libopus", "small.webm");
  const auto webm = Open(folder_.File("small.webm")).value();
  EXPECT_TRUE(webm->info().has_sound);
  EXPECT_EQ(Differences(*webm, Rgb("small.webm")), 0);
  Make(std::string(kPicture) + "-c:v libx264 -bf 0 -pix_fmt yuv420p", "raw.h264");
  EXPECT_EQ(Differences(*Open(folder_.File("raw.h264")).value(), Rgb("raw.h264")), 0);
  Make(std::string(kPicture) + "-c:v mpeg2video -q:v 3", "stream.ts");
  EXPECT_EQ(Differences(*Open(folder_.File("stream.ts")).value(), Rgb("stream.ts")), 0);
}

TEST_F(Plugin, OwnReadersAgreeWithFfmpeg) {
  // Our own conversion rounds to the nearest, FFmpeg's fast one cuts in between.
  for (const char* kind : {"yuv420p", "yuv422p", "yuv444p", "gray"}) {
    const std::string path = Make(std::string(kPicture) + "-strict -1 -pix_fmt " + kind, "own.y4m");
    const auto reader = OpenVideo(path, nullptr).value();
    EXPECT_LE(Differences(*reader, Rgb("own.y4m")), 3) << kind;
  }
  const std::string path = Make(std::string(kPicture) + kTone + "-c:v mjpeg -q:v 2 -c:a pcm_s16le", "own.avi");
  const auto reader = OpenVideo(path, nullptr).value();
  EXPECT_EQ(reader->info().format, "avi/mjpeg");
  EXPECT_EQ(reader->info().n_frames, 25);
  EXPECT_EQ(LoadSound(path, nullptr).value().value().size(), 48000u);
  // libjpeg interpolates chroma, FFmpeg repeats it: apart from the edges of colours they agree.
  const std::string rgb = Rgb("own.avi");
  const Image image = reader->Frame(20).value();
  size_t near = 0;
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    near += std::abs(image.rgb[i] - static_cast<uint8_t>(rgb[image.rgb.size() * 20 + i])) <= 3 ? 1 : 0;
  }
  EXPECT_GT(static_cast<double>(near) / static_cast<double>(image.rgb.size()), 0.5);
}

// The share of a tone in samples at 16 kHz: 1 for a pure one.
double ToneShare(const Samples& samples, double hz) {
  double re = 0, im = 0, all = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    re += samples[i] * std::cos(2 * M_PI * hz * static_cast<double>(i) / 16000);
    im += samples[i] * std::sin(2 * M_PI * hz * static_cast<double>(i) / 16000);
    all += samples[i] * samples[i];
  }
  return 2 * (re * re + im * im) / (all * static_cast<double>(samples.size()));
}

TEST_F(Plugin, SoundOfAnyContainer) {
  struct Case {
    const char* arguments;
    const char* name;
  };
  for (const Case c :
       {Case{"-c:a aac", "a.m4a"}, Case{"-c:a aac -ac 2", "b.mp4"}, Case{"-c:a libopus", "c.webm"},
        Case{"-c:a libmp3lame -ar 22050", "d.mkv"}, Case{"-c:a wmav2", "e.asf"}, Case{"-c:a mp2", "f.ts"}}) {
    const std::string path = Make(std::string(kTone) + c.arguments, c.name);
    const auto sound = LoadSound(path, plugin_.get());
    ASSERT_TRUE(sound.has_value()) << c.name << ": " << sound.error().message;
    ASSERT_TRUE(sound->has_value()) << c.name;
    EXPECT_NEAR(static_cast<double>((*sound)->size()), 48000, 1700) << c.name;
    EXPECT_GT(ToneShare(**sound, 500), 0.95) << c.name;
    EXPECT_LT(ToneShare(**sound, 700), 0.01) << c.name;
  }
  AudioLimits limits;
  limits.max_seconds = 1;
  const auto limited = LoadSound(folder_.File("a.m4a"), plugin_.get(), limits);
  ASSERT_FALSE(limited.has_value());
  EXPECT_EQ(limited.error().code, ErrorCode::kResourceExhausted) << limited.error().message;
}

TEST_F(Plugin, CutAndForeignFilesAreOneClearSentence) {
  const std::string movie = Make(std::string(kPicture) + kTone + "-c:v libx264 -c:a aac -pix_fmt yuv420p", "a.mp4");
  const std::string front = Make("-i a.mp4 -c copy -movflags +faststart", "front.mp4");
  for (const std::string& path : {movie, front}) {
    const std::string bytes = test::ReadFileBytes(path);
    for (const double share : {0.02, 0.3, 0.6, 0.9}) {
      const std::string cut =
          folder_.Write("cut.mp4", bytes.substr(0, static_cast<size_t>(share * static_cast<double>(bytes.size()))));
      // What is there may be whole: the pictures often come first.
      const auto sound = LoadSound(cut, plugin_.get());
      const std::string message = sound.has_value() ? ErrorOf(cut) : sound.error().message;
      EXPECT_THAT(message, HasSubstr("cut.mp4: ")) << share;
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
  EXPECT_THAT(ErrorOf(folder_.Write("x.mp4", std::string(5000, 'x'))), HasSubstr("x.mp4: "));
  EXPECT_THAT(ErrorOf(folder_.Write("t.txt", "just text, no media\n")), HasSubstr("t.txt: "));
  EXPECT_THAT(ErrorOf(Make(std::string(kTone) + "-c:a aac", "only.m4a")), HasSubstr("no video"));
  // A cover picture is no video.
  Make("-f lavfi -i testsrc2=size=64x64:rate=1:duration=1 -frames:v 1", "cover.png");
  Make(std::string(kTone) + "-i cover.png -map 0 -map 1 -c:a aac -c:v png -disposition:v attached_pic", "cover.m4a");
  EXPECT_THAT(ErrorOf(folder_.File("cover.m4a")), HasSubstr("no video"));
  VideoLimits limits;
  limits.max_frames = 10;
  EXPECT_EQ(Open(movie, limits).error().code, ErrorCode::kResourceExhausted);
  limits = {};
  limits.max_pixels = 1000;
  EXPECT_FALSE(Open(movie, limits).has_value());
  EXPECT_EQ(Open(folder_.File("none.mp4")).error().code, ErrorCode::kNotFound);
}

TEST_F(Plugin, FilesThatNameOtherFilesAreRefused) {
  Make(std::string(kPicture) + "-c:v libx264 -pix_fmt yuv420p", "secret.mp4");
  Make("-i secret.mp4 -c copy", "secret.ts");
  const std::string playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nsecret.ts\n#EXT-X-ENDLIST\n";
  EXPECT_THAT(ErrorOf(folder_.Write("list.m3u8", playlist)), HasSubstr("not a kind of media file"));
  EXPECT_THAT(ErrorOf(folder_.Write("list.mp4", playlist)), HasSubstr("list.mp4: "));
  EXPECT_THAT(ErrorOf(folder_.Write("list.ffconcat", "ffconcat version 1.0\nfile secret.mp4\n")),
              HasSubstr("list.ffconcat: "));
  EXPECT_THAT(
      ErrorOf(folder_.Write("s.sdp",
                            "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
                            "a=rtpmap:96 H264/90000\n")),
      HasSubstr("s.sdp: "));
  for (const std::string& address : {"concat:" + folder_.File("secret.ts"), std::string("http://127.0.0.1/x.mp4")}) {
    EXPECT_EQ(OpenVideo(address, plugin_.get()).error().code, ErrorCode::kNotFound) << address;
  }
}

TEST_F(Plugin, WritesWhatItReads) {
  for (const char* name : {"out.mp4", "out.mkv", "out.mov"}) {
    const std::string path = folder_.File(name);
    auto writer = OpenVideoWriter(path, {.width = 63, .height = 35, .fps = 10}, plugin_.get()).value();
    for (int i = 0; i < 12; ++i) {
      const Image frame{63, 35, std::vector<uint8_t>(3 * 63 * 35, static_cast<uint8_t>(40 + 15 * i))};
      ASSERT_TRUE(writer->Write(frame, i < 6 ? i * 0.1 : i * 0.2).has_value());
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(writer->Finish().has_value());
    const auto reader = Open(path).value();
    ASSERT_EQ(reader->info().n_frames, 12) << name;
    EXPECT_EQ(reader->info().width, 64);
    EXPECT_EQ(reader->info().height, 36);
    EXPECT_NEAR(reader->TimeOf(5), 0.5, 2e-3);
    EXPECT_NEAR(reader->TimeOf(11), 2.2, 2e-3);
    for (const int i : {0, 11, 5})
      EXPECT_NEAR(reader->Frame(i).value().rgb[3 * (64 * 20 + 30)], 40 + 15 * i, 4) << name;
  }
  {
    auto dropped =
        OpenVideoWriter(folder_.File("dropped.mp4"), {.width = 16, .height = 16, .fps = 10}, plugin_.get()).value();
    ASSERT_TRUE(dropped->Write(Image{16, 16, std::vector<uint8_t>(768, 9)}, 0).has_value());
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find("dropped"), std::string::npos) << entry.path();
  }
}

TEST(MediaPluginLoad, RefusesWhatIsNoPlugin) {
  const test::TempDir folder;
  EXPECT_EQ(MediaPlugin::Load(folder.File("none.so")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MediaPlugin::Load(folder.Write("text.so", "text")).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace minicpm
