// audio_tool: the audio room on the command line, so that reference/check_mel.py can compare it with other programs.
// Not a product: it has no options to speak of, and its output may change with its only user.
//
//   audio_tool samples FILE OUT        decoded samples, f32
//   audio_tool mel FILE OUT            log-mel frames of all pieces [n, 80], f32
//   audio_tool stream MODE FILE OUT    MODE half or duplex: per chunk n_frames, prefix, suffix as f32, then the frames;
//                                      the sound comes in pieces of one second
//   audio_tool time FILE SECONDS N     milliseconds of the fastest of N: decoding, and mel of SECONDS of the sound,
//                                      repeated as often as needed
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "audio/audio.h"
#include "audio/log_mel.h"
#include "audio/mel_stream.h"

namespace minicpm {
namespace {

constexpr int64_t kMels = 80;

int Write(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return file.good() ? 0 : 1;
}

std::vector<float> MelOf(const Samples& samples) {
  LogMel log_mel(kMels);
  std::vector<float> all;
  for (size_t begin = 0; begin < samples.size(); begin += kAudioPieceSamples) {
    const size_t n = std::min<size_t>(kAudioPieceSamples, samples.size() - begin);
    const int64_t rows = MelFrames(static_cast<int64_t>(n));
    const size_t had = all.size();
    all.resize(had + rows * kMels);
    log_mel.Compute(std::span(samples).subspan(begin, n), Matrix(all.data() + had, rows, kMels));
  }
  return all;
}

std::vector<float> StreamOf(const Samples& samples, MelStream::Mode mode) {
  MelStream stream(mode, kMels);
  std::vector<float> all;
  const auto add = [&](const std::optional<MelStream::Chunk>& chunk) {
    if (!chunk.has_value()) return;
    for (const int64_t n : {chunk->n_frames, chunk->prefix, chunk->suffix}) all.push_back(static_cast<float>(n));
    all.insert(all.end(), chunk->frames.begin(), chunk->frames.end());
  };
  for (size_t begin = 0; begin < samples.size(); begin += kAudioSampleRate) {
    stream.Push(std::span(samples).subspan(begin, std::min<size_t>(kAudioSampleRate, samples.size() - begin)));
    add(stream.Next());
  }
  add(stream.Finish());
  return all;
}

int Time(const std::string& path, double seconds, int n) {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  double decode = 1e30;
  double mel = 1e30;
  Samples samples;
  for (int i = 0; i < n; ++i) {
    const auto begin = Clock::now();
    samples = LoadAudio(path).value();
    decode = std::min(decode, ms(Clock::now() - begin));
  }
  std::printf("decode %.2f ms for %.2f s\n", decode, static_cast<double>(samples.size()) / kAudioSampleRate);
  const size_t period = samples.size();
  samples.resize(static_cast<size_t>(seconds * kAudioSampleRate));
  for (size_t i = period; i < samples.size(); ++i) samples[i] = samples[i - period];
  for (int i = 0; i < n; ++i) {
    const auto begin = Clock::now();
    MelOf(samples);
    mel = std::min(mel, ms(Clock::now() - begin));
  }
  std::printf("mel %.2f ms for %.2f s\n", mel, seconds);
  return 0;
}

int Run(const std::vector<std::string>& args) {
  if (args.size() == 4 && args[0] == "time") return Time(args[1], std::stod(args[2]), std::stoi(args[3]));
  const bool stream = args.size() == 4 && args[0] == "stream";
  if (!stream && args.size() != 3) return 2;
  const Result<Samples> samples = LoadAudio(args[args.size() - 2]);
  if (!samples.has_value()) {
    std::cout << "error " << ErrorCodeName(samples.error().code) << ' ' << samples.error().message << '\n';
    return 1;
  }
  const std::string& out = args.back();
  if (args[0] == "samples") return Write(out, *samples);
  if (args[0] == "mel") return Write(out, MelOf(*samples));
  if (!stream) return 2;
  return Write(out, StreamOf(*samples, args[1] == "half" ? MelStream::Mode::kHalfDuplex : MelStream::Mode::kDuplex));
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) { return minicpm::Run({argv + 1, argv + argc}); }
