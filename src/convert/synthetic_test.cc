// Synthetic models: they load like real ones, their weights keep the promises, the same bytes for any threads.
#include "convert/synthetic.h"

#include <gmock/gmock.h>

#include <cmath>

#include "convert/convert_test_util.h"
#include "convert/synthetic_model.h"
#include "convert/verify.h"
#include "engine/engine.h"
#include "store/checkpoint.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Synthetic, LoadsAndKeepsItsPromises) {
  for (const char* family : {"minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"}) {
    const test::TempDir dir;
    const auto done = WriteSyntheticBundle(test::TinySynthetic(family, dir.File("b")));
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_TRUE(done->manifest.synthetic);
    VerifyOptions options;
    options.folder = dir.File("b");
    const auto report = VerifyBundle(options);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_THAT(report->problems, IsEmpty()) << report->problems.front().what;
    EXPECT_FALSE(report->has_selftest);
    const auto engine = Engine::Open(dir.File("b"), {});
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    EXPECT_STREQ((*engine)->family_name(), family);
    EXPECT_EQ((*engine)->tokenizer().Decode((*engine)->tokenizer().Encode("two Words, 3 dots...", false), false),
              "two Words, 3 dots...");
    EXPECT_TRUE((*engine)->IsStop((*engine)->tokenizer().AddedTokenId("<|im_end|>")));
  }
}

TEST(Synthetic, WeightsAreSpreadAsInRealModels) {
  const test::TempDir dir;
  ASSERT_TRUE(WriteSyntheticBundle(test::TinySynthetic("minicpm-v-2_6", dir.File("b"))).has_value());
  const auto bundle = Checkpoint::Open(dir.File("b"));
  ASSERT_TRUE(bundle.has_value());
  int n = 0;
  for (const auto* entry : bundle->entries()) {
    if (!IsPacked(entry->view.dtype)) continue;
    const int64_t k = entry->view.shape[1];
    std::vector<float> row(static_cast<size_t>(k));
    double squares = 0;
    for (int64_t r = 0; r < entry->view.shape[0]; ++r) {
      quant::DecodeRow(entry->view, r, row.data());
      for (const float w : row) squares += static_cast<double>(w) * static_cast<double>(w);
    }
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(entry->view.shape.elements())), 0.02, 0.002) << entry->name;
    ++n;
  }
  EXPECT_GT(n, 10);
}

TEST(Synthetic, SameBytesForAnyThreadsOthersForAnotherSeed) {
  const test::TempDir dir;
  SyntheticOptions options = test::TinySynthetic("minicpm-v-4_5", dir.File("1"));
  options.n_threads = 1;
  ASSERT_TRUE(WriteSyntheticBundle(options).has_value());
  options.folder = dir.File("3");
  options.n_threads = 3;
  ASSERT_TRUE(WriteSyntheticBundle(options).has_value());
  EXPECT_TRUE(test::SameFolders(dir.File("1"), dir.File("3")));
  options.folder = dir.File("seed");
  options.seed = 2;
  ASSERT_TRUE(WriteSyntheticBundle(options).has_value());
  EXPECT_FALSE(test::SameFolders(dir.File("1"), dir.File("seed")));
}

TEST(Synthetic, ModelsHaveTheOfficialShapes) {
  const auto v45 = MakeSyntheticModel("minicpm-v-4_5:layers=2:vision_layers=3", 1);
  ASSERT_TRUE(v45.has_value()) << v45.error().message;
  EXPECT_EQ(v45->config.decoder.n_embed, 4096);
  EXPECT_EQ(v45->config.decoder.n_layers, 2);
  EXPECT_EQ(v45->config.vision.n_kept_layers(), 3);
  EXPECT_EQ(v45->config.decoder.n_vocab, 151748);
  const auto small = MakeSyntheticModel("qwen3-0.6b", 1);
  ASSERT_TRUE(small.has_value()) << small.error().message;
  EXPECT_TRUE(small->config.decoder.tied_head);
  EXPECT_EQ(small->config.decoder.n_kv_heads, 8);
  EXPECT_EQ(small->config.eos_ids, std::vector<int32_t>{151645});
  for (const char* text : {"gpt", "minicpm-v-4_5:layers", "minicpm-v-4_5:layers=0", "minicpm-v-4_5:layers=x",
                           "minicpm-v-4_5:depth=3", "", "minicpm-v-4_5:"}) {
    const auto wrong = MakeSyntheticModel(text, 1);
    ASSERT_FALSE(wrong.has_value()) << text;
    EXPECT_THAT(wrong.error().message, HasSubstr("--synthetic")) << text;
  }
}

}  // namespace
}  // namespace minicpm
