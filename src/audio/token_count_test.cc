// Token counts of audio clips against the published table and the committed vectors.
#include "audio/token_count.h"

#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace minicpm {
namespace {

TEST(TokenCount, SamplesOfTheProcessor) {
  struct Row {
    int64_t samples, mel, encoder, tokens;
  };
  constexpr Row kRows[] = {{800, 5, 3, 0},       {1600, 10, 5, 1},     {8000, 50, 25, 5},
                           {16000, 100, 50, 10}, {16560, 104, 52, 10}, {480000, 3000, 1500, 300}};
  for (const Row& row : kRows) {
    EXPECT_EQ(MelFrames(row.samples), row.mel) << row.samples;
    EXPECT_EQ(EncoderFrames(row.mel), row.encoder) << row.samples;
    EXPECT_EQ(PooledTokens(row.encoder), row.tokens) << row.samples;
    EXPECT_EQ(AudioTokensOfPiece(row.samples), row.tokens) << row.samples;
  }
}

TEST(TokenCount, CommittedVectors) {
  std::ifstream file(MINICPM_SOURCE_DIR "/tests/data/preprocess/audio_tokens.csv");
  std::string line;
  int n = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::istringstream fields(line);
    int64_t samples = 0;
    int64_t mel = 0;
    int64_t encoder = 0;
    int64_t tokens = 0;
    char comma = 0;
    fields >> samples >> comma >> mel >> comma >> encoder >> comma >> tokens;
    ASSERT_FALSE(fields.fail()) << line;
    EXPECT_EQ(MelFrames(samples), mel) << line;
    EXPECT_EQ(EncoderFrames(mel), encoder) << line;
    EXPECT_EQ(AudioTokensOfPiece(samples), tokens) << line;
    ++n;
  }
  EXPECT_GE(n, 200);
}

TEST(TokenCount, BelowFiveFramesThereIsNothing) {
  EXPECT_EQ(MelFrames(0), 0);
  EXPECT_EQ(EncoderFrames(0), 0);
  for (int64_t frames = 0; frames < 5; ++frames) EXPECT_EQ(PooledTokens(frames), 0) << frames;
  EXPECT_EQ(PooledTokens(5), 1);
}

TEST(TokenCount, LongClipsAreCutIntoPieces) {
  EXPECT_EQ(AudioTokensOfClip(480000), 300);
  EXPECT_EQ(AudioTokensOfClip(480000 + 799), 300);
  EXPECT_EQ(AudioTokensOfClip(480000 + 1600), 301);
  EXPECT_EQ(AudioTokensOfClip(int64_t{480000} * 120), 300 * 120);
}

}  // namespace
}  // namespace minicpm
