// Tests of nominal_work.h against figures worked out by hand for the shapes of MiniCPM-V 4.5.
#include "measure/nominal_work.h"

#include "gtest/gtest.h"
#include "models/blocks/model_config.h"

namespace minicpm {
namespace {

ModelConfig Shapes() {
  ModelConfig c;
  c.vision.drop_last_layer = false;
  c.resampler.n_embed = 4096;
  c.resampler.n_input = 1152;
  c.decoder = {.n_embed = 4096,
               .n_ffn = 12288,
               .n_layers = 36,
               .n_heads = 32,
               .n_kv_heads = 8,
               .head_dim = 128,
               .n_vocab = 151748};
  return c;
}

TEST(NominalWork, OneSlice) {
  // 27 layers of 31.18 (linears) + 4.83 (attention), 1.4 for patches, 86 for the resampler.
  EXPECT_NEAR(SliceOps(Shapes(), 1024) / 1e9, 1060, 2);
  ModelConfig shorter = Shapes();
  shorter.vision.drop_last_layer = true;
  EXPECT_NEAR((SliceOps(Shapes(), 1024) - SliceOps(shorter, 1024)) / 1e9, 36.0, 0.1);
}

TEST(NominalWork, Prefill) {
  const ModelConfig c = Shapes();
  const double head = 2.0 * 4096 * 151748;
  // 6.95e9 parameters in the layers, two operations each.
  EXPECT_NEAR((PrefillOps(c, 0, 1) - head) / 1e9, 13.9, 0.1);
  // Feeding in two pieces is the same work, but for the head of one more row.
  EXPECT_NEAR(PrefillOps(c, 0, 300) + PrefillOps(c, 300, 212), PrefillOps(c, 0, 512) + head, 1e3);
  // A token that sees 1000 more keys costs 4 * 1000 * 4096 a layer more.
  EXPECT_NEAR(PrefillOps(c, 1000, 1) - PrefillOps(c, 0, 1), 36 * 4.0 * 1000 * 4096, 1);
}

TEST(NominalWork, DecodeReadsTheTableOnlyAsHead) {
  ModelConfig c = Shapes();
  EXPECT_EQ(DecodeWeightBytes(c, 1000, 300), 700u);
  c.decoder.tied_head = true;
  EXPECT_EQ(DecodeWeightBytes(c, 1000, 300), 1000u);
}

}  // namespace
}  // namespace minicpm
