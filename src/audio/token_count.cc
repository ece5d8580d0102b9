// The counting rules of MiniCPM-o's audio path. Not for features or encoding.
#include "audio/token_count.h"

#include <algorithm>

#include "base/check.h"

namespace minicpm {
namespace {

// Python's //, for a positive divisor.
int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

}  // namespace

int64_t MelFrames(int64_t n_samples) {
  MINICPM_CHECK(n_samples >= 0);
  return n_samples / kAudioHop + (n_samples % kAudioHop != 0 ? 1 : 0);
}

int64_t EncoderFrames(int64_t n_mel_frames) {
  MINICPM_CHECK(n_mel_frames >= 0);
  return FloorDivide(n_mel_frames - 1, 2) + 1;
}

int64_t PooledTokens(int64_t n_encoder_frames) {
  MINICPM_CHECK(n_encoder_frames >= 0);
  return FloorDivide(n_encoder_frames - 5, 5) + 1;
}

int64_t AudioTokensOfPiece(int64_t n_samples) {
  MINICPM_CHECK(n_samples <= kAudioPieceSamples);
  return PooledTokens(EncoderFrames(MelFrames(n_samples)));
}

int64_t AudioTokensOfClip(int64_t n_samples) {
  MINICPM_CHECK(n_samples >= 0);
  const int64_t n_full = n_samples / kAudioPieceSamples;
  return n_full * AudioTokensOfPiece(kAudioPieceSamples) + AudioTokensOfPiece(n_samples % kAudioPieceSamples);
}

}  // namespace minicpm
