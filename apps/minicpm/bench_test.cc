// The built program, `minicpm bench`, on the bundled tiny models: keys and what figures must agree with. Not their
// size: that depends on the machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_test_process.h"
#include "tests/support/json_schema.h"

namespace minicpm::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Quick(const std::string& family, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"bench", TinyModel(family), "--quick", "--repeat",  "2",  "--prompt",
                                    "40",    "--generate",      "3",       "--context", "128"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(BenchProgram, JsonKeepsItsSchemaAndItsWord) {
  for (const char* family : {"minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"}) {
    const Outcome outcome = Minicpm(Quick(family, {"--json"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(testing::ValidateText("bench.schema.json", outcome.out), IsEmpty()) << outcome.out;
    const json r = json::parse(outcome.out);
    EXPECT_EQ(r["model"]["family"], family);
    EXPECT_EQ(r["model"]["language_dtype"], "BF16");
    EXPECT_EQ(r["prefill"]["limit"], "f32_gflop_s");
    EXPECT_EQ(r["prefill"]["tokens"], 40);
    EXPECT_EQ(r["quick"], true);
    ASSERT_EQ(r["decode_batch"].size(), 3u);
    EXPECT_EQ(r["decode_batch"][0]["n"], 1);
    EXPECT_EQ(r["decode_batch"][2]["n"], 8);
    EXPECT_EQ(r["decode_batch"][0]["tok_s"], r["decode"]["tok_s"]);
    for (const char* part : {"image_slice", "prefill", "decode"}) {
      const double share = r[part]["share"];
      EXPECT_GT(share, 0);
      // The weights of a tiny model stay in the cache, where reading is no limit.
      if (std::string(part) != "decode") {
        EXPECT_LT(share, 2) << part;
      }
      EXPECT_LE(r[part]["min"]["share"], share);
      EXPECT_GE(r[part]["max"]["share"], share);
    }
    EXPECT_GT(r["load_cold_ms"].get<double>(), 0);
    EXPECT_GE(r["first_token_ms_min"].get<double>(), r["load_ms_min"].get<double>());
    // The probe's memory is not in it.
    EXPECT_LT(r["peak_rss_mb"].get<double>(), 120);
  }
}

TEST(BenchProgram, CacheFormatShowsInItsSize) {
  const json f16 = json::parse(Minicpm(Quick("minicpm-v-4_5", {"--json", "--warm"})).out);
  const json int8 = json::parse(Minicpm(Quick("minicpm-v-4_5", {"--json", "--warm", "--kv", "int8"})).out);
  EXPECT_LT(int8["kv_mb"].get<double>(), 0.65 * f16["kv_mb"].get<double>());
  EXPECT_TRUE(f16["load_cold_ms"].is_null());
}

TEST(BenchProgram, TableHelpAndMistakes) {
  const Outcome table = Minicpm(Quick("minicpm-v-4_5", {}));
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* word : {"image slice", "prefill", "decode 8x", "of the streaming read", "--quick"}) {
    EXPECT_THAT(table.out, HasSubstr(word));
  }
  const Outcome help = Minicpm({"bench", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_EQ(Minicpm({"bench"}).exit_code, 2);
  EXPECT_EQ(Minicpm({"bench", TinyModel("minicpm-v-4_5"), "--repeat", "0"}).exit_code, 2);
  const Outcome none = Minicpm({"bench", "/no/such/folder"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.out, "");
  const Outcome long_prompt = Minicpm(Quick("minicpm-v-4_5", {"--prompt", "16000000"}));
  EXPECT_EQ(long_prompt.exit_code, 1);
  EXPECT_THAT(long_prompt.err, HasSubstr("16000000"));
}

}  // namespace
}  // namespace minicpm::cli
