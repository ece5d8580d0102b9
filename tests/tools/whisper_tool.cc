// whisper_tool: the audio tower on the command line, for weights that no test has: FOLDER as reference/whisper_ct2.py
// writes it. Prints the largest difference from what transformers' encoder gave. Not a product.
//
//   whisper_tool FOLDER THREADS
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "models/whisper/whisper.h"
#include "store/checkpoint.h"
#include "store/safetensors.h"

namespace minicpm {
namespace {

TensorView Find(const SafetensorsFile& file, const std::string& name) {
  for (const auto& entry : file.entries()) {
    if (entry.name == name) return entry.view;
  }
  std::cerr << "no tensor " << name << '\n';
  std::exit(1);
}

AudioConfig ReadConfig(const std::string& path) {
  const auto json = nlohmann::json::parse(std::ifstream(path));
  AudioConfig config;
  config.n_embed = json.at("d_model");
  config.n_layers = json.at("encoder_layers");
  config.n_heads = json.at("encoder_attention_heads");
  config.n_ffn = json.at("encoder_ffn_dim");
  config.n_mels = json.at("num_mel_bins");
  config.n_positions = json.at("max_source_positions");
  return config;
}

int Run(const std::string& folder, int n_threads) {
  AudioConfig config = ReadConfig(folder + "/apm.json");
  const auto checkpoint = Checkpoint::Open(folder);
  const auto speech = SafetensorsFile::Open(folder + "/speech.safetensors");
  if (!checkpoint.has_value() || !speech.has_value()) return 1;
  CheckpointLoader loader(*checkpoint);
  WhisperWeights weights;
  if (const Status status = VisitWhisper(config, "apm.", loader, weights); !status.has_value()) {
    std::cerr << status.error().message << '\n';
    return 1;
  }
  auto compute = Compute::Create({.n_threads = n_threads}).value();
  const TensorView mel = Find(*speech, "mel");
  const ConstMatrix frames(mel.as<float>(), mel.shape[0], mel.shape[1]);
  for (const auto& [name, seconds] : {std::pair{"encoder", 0.0}, std::pair{"encoder_blocks", 1.0}}) {
    config.chunk_seconds = seconds;
    const TensorView expected = Find(*speech, name);
    WhisperRun run(config, weights, {.mel = frames});
    while (!run.Step(*compute)) {
    }
    const Matrix output = run.output();
    double difference = output.rows == expected.shape[0] && output.cols == expected.shape[1] ? 0 : INFINITY;
    double largest = 0;
    for (int64_t r = 0; difference < INFINITY && r < output.rows; ++r) {
      for (int64_t c = 0; c < output.cols; ++c) {
        const double value = expected.as<float>()[r * output.cols + c];
        largest = std::max(largest, std::abs(value));
        difference = std::max(difference, std::abs(value - output.row(r)[c]));
      }
    }
    std::printf("%s: largest difference %.3g of %.4g, relative %.3g\n", name, difference, largest,
                difference / largest);
  }
  return 0;
}

}  // namespace
}  // namespace minicpm

int main(int argc, char** argv) { return argc == 3 ? minicpm::Run(argv[1], std::stoi(argv[2])) : 2; }
