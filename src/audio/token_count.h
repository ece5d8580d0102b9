// From samples at 16 kHz to mel frames, encoder frames and tokens: pure counting. Not for computing any of them.
// Rules: MiniCPM-o's processing code (floor divisions throughout, so that short clips give 0 and never less).
#pragma once

#include <cstdint>

namespace minicpm {

constexpr int64_t kAudioSampleRate = 16000;
constexpr int64_t kAudioHop = 160;              // samples per mel frame
constexpr int64_t kAudioPieceSamples = 480000;  // longer clips are cut into pieces of 30 s

// Requires for all: n >= 0.

// Mel frames of one piece: ceil(samples / 160).
int64_t MelFrames(int64_t n_samples);
// Frames after the encoder's stride-2 convolution: floor((mel - 1) / 2) + 1; 0 for 0.
int64_t EncoderFrames(int64_t n_mel_frames);
// Tokens after average pooling by 5: floor((frames - 5) / 5) + 1; 0 below 5 frames.
int64_t PooledTokens(int64_t n_encoder_frames);

// Tokens of one piece. Requires: 0 <= n_samples <= kAudioPieceSamples.
int64_t AudioTokensOfPiece(int64_t n_samples);
// Tokens of a clip of any length: the sum over its pieces.
int64_t AudioTokensOfClip(int64_t n_samples);

}  // namespace minicpm
